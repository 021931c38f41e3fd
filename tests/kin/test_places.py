"""Kin with many rows: the same fit on threads, a device and a cluster, and how good its features are."""

import numpy as np
import pytest

from kernelkin import KinClassifier, KinRegressor
from kernelkin.kin import fit as kin_fit
from kernelkin.mixed import structures
from kernelkin.mixed.structures import Structure
from mixed.test_places import Shards

LIKE = Structure("slopes and common smooth", common=True)


@pytest.fixture
def rows(monkeypatch):
    """Few rows that count as many."""
    monkeypatch.setattr(kin_fit, "STRUCTURES", (LIKE,))
    monkeypatch.setattr(structures, "EXACT_ROWS", 40)
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(20), 6)
    X = rng.normal(size=(120, 2))
    y = rng.normal(size=20)[tasks] + np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=120)
    return X, y, tasks


@pytest.mark.parametrize("estimator", [KinRegressor, KinClassifier])
@pytest.mark.parametrize("options", [{"engine": Shards(lost_after=5)}, {"device": "cpu"}], ids=["engine", "device"])
def test_engines_and_devices_give_the_fit_of_threads(rows, estimator, options):
    if "device" in options:
        pytest.importorskip("torch")
    X, y, tasks = rows
    y = y if estimator is KinRegressor else y > 0
    expected, found = (estimator(cv=2, random_state=0, **each).fit(X, y, tasks=tasks) for each in ({}, options))
    for name in expected.variance_components_:
        assert found.variance_components_[name] == pytest.approx(expected.variance_components_[name], abs=1e-6)
    method = "predict" if estimator is KinRegressor else "predict_proba"
    np.testing.assert_allclose(getattr(found, method)(X, tasks), getattr(expected, method)(X, tasks), atol=1e-6)


def test_features_report_what_they_lose_and_more_lose_less(rows):
    X, y, tasks = rows
    few, many = (KinRegressor(cv=2, n_features=m, random_state=0).fit(X, y, tasks=tasks) for m in (6, 60))
    assert (few.features_["count"], many.features_["count"]) == (6, 60)
    assert many.features_["missed_variance"] < few.features_["missed_variance"] < 1
    assert 0 < few.features_["error"] != few.features_["error_with_half"]
    assert "approximated by 6 features; with half as many, the error of held-out rows changes by " in few.explain()


def test_exact_fits_have_no_features():
    X = np.random.default_rng(0).normal(size=(40, 1))
    model = KinRegressor(cv=2).fit(X, X[:, 0], tasks=np.repeat([0, 1, 2, 3], 10))
    assert model.features_ is None
    assert "features" not in model.explain()


def test_a_device_that_is_not_there_is_refused():
    pytest.importorskip("torch")
    X = np.zeros((4, 1))
    with pytest.raises(ValueError, match="device='nowhere' cannot be used by torch"):
        KinRegressor(device="nowhere").fit(X, np.arange(4.0), tasks=[0, 0, 1, 1])
