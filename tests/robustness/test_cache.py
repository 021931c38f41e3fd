"""A cache gives back what was computed from the same, and never what was computed from anything else."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from kernelkin import (
    AverageRegressor,
    MKMTRLRegressor,
    gaussian_kernels,
    linear_kernels,
)
from kernelkin.paper.model_selection import MKMTRLClassifierCV, MKMTRLRegressorCV, MultiTaskCV

rng = np.random.default_rng(0)
X, TASKS = rng.normal(size=(24, 2)), np.repeat(["a", "b"], 12)
Y = X[:, 0] + 0.1 * rng.normal(size=24)
WEIGHT = np.ones(24)
KERNELS = linear_kernels(per_feature=True)
SEARCH = MultiTaskCV(MKMTRLRegressor(KERNELS), {"mu": [0.1, 1.0]}, cv=2, random_state=0)


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


GIVEN = {"X": X, "y": Y, "tasks": TASKS, "sample_weight": WEIGHT}
OTHER_DATA = {
    "one value of X": {"X": changed(X, (3, 1), np.nextafter(X[3, 1], 9))},
    "one target": {"y": changed(Y, 5, np.nextafter(Y[5], 9))},
    "the task of a row": {"tasks": changed(TASKS, 0, "b")},
    "the name of a task": {"tasks": np.where(TASKS == "a", "c", TASKS)},
    "a weight": {"sample_weight": changed(WEIGHT, 2, 2.0)},
    "the order of rows": {"X": X[::-1], "y": Y[::-1], "tasks": TASKS[::-1]},
    "another form": {"y": np.column_stack([Y, Y]), "tasks": None},
}
OTHER_SEARCHES = {
    "a parameter": {"estimator__C": 2.0},
    "a parameter by less than is shown": {"estimator__C": 1.0 + 1e-15},
    "a kernel": {"estimator__kernels": gaussian_kernels([1.0])},
    "the width of a kernel": {"estimator__kernels": gaussian_kernels([1.0 + 1e-12])},
    "a tolerance": {"search_tol": 1e-2},
    "the grid": {"grid": {"mu": [0.1, 1.5]}},
    "the folds": {"random_state": 1},
    "the number of folds": {"cv": 3},
    "the class": {"estimator": AverageRegressor(KERNELS), "grid": {"C": [0.1, 1.0]}},
}


def fit(folder, given=(), **how):
    return clone(SEARCH).set_params(cache=folder, **how).fit(**{**GIVEN, **dict(given)})


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    assert fit(folder).n_cached_ == 0
    return folder


def test_an_equal_search_is_found_in_the_cache(filled):
    again = fit(filled, n_jobs=2, verbose=0, scoring="neg_mean_squared_error")
    assert again.n_cached_ == 2
    np.testing.assert_array_equal(again.kernel_weights_, fit(None).set_params(grid={}).kernel_weights_)


@pytest.mark.parametrize("name", OTHER_DATA)
def test_other_data_find_nothing(filled, name):
    assert fit(filled, OTHER_DATA[name]).n_cached_ == 0


@pytest.mark.parametrize("name", OTHER_SEARCHES)
def test_other_searches_find_nothing(filled, name):
    assert fit(filled, **OTHER_SEARCHES[name]).n_cached_ == 0


def test_another_version_finds_nothing(filled, monkeypatch):
    monkeypatch.setattr("kernelkin.__version__", "999.0")
    assert fit(filled).n_cached_ == 0


@pytest.mark.parametrize("search", [MKMTRLClassifierCV, MKMTRLRegressorCV])
def test_every_searching_estimator_has_it(tmp_path, search):
    y = Y > 0 if search is MKMTRLClassifierCV else Y
    model = search(KERNELS, grid={"mu": [0.1, 1.0]}, cv=2, cache=tmp_path, random_state=0)
    first, second = (clone(model).fit(X, y, tasks=TASKS) for _ in range(2))
    assert (first.n_cached_, second.n_cached_) == (0, 2)
    np.testing.assert_array_equal(first.cv_results_["mean_test_score"], second.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(first.kernel_weights_, second.kernel_weights_)


def test_verbose_shows_what_was_found(tmp_path, capsys):
    fit(tmp_path, verbose=1)
    assert "cache" not in capsys.readouterr().out
    fit(tmp_path, verbose=1)
    assert capsys.readouterr().err.count("from the cache") == 4


def test_damaged_entries_are_computed_again(tmp_path):
    whole = fit(tmp_path)
    first, second = sorted(tmp_path.iterdir())
    first.write_bytes(first.read_bytes()[:100])
    content = bytearray(second.read_bytes())
    content[-200] ^= 1
    second.write_bytes(content)
    again = fit(tmp_path)
    assert again.n_cached_ == 0
    np.testing.assert_array_equal(again.cv_results_["mean_test_score"], whole.cv_results_["mean_test_score"])
    assert fit(tmp_path).n_cached_ == 2


def own_kernel(A, B):
    return A @ B.T


@pytest.mark.parametrize("kernel", [own_kernel, lambda A, B: A @ B.T, partial(own_kernel)])
def test_code_of_the_user_is_refused_as_it_may_change(tmp_path, kernel):
    with pytest.raises(ValueError, match=r"a cache cannot detect when your function or class \S+ changes"):
        fit(tmp_path, estimator__kernels=[kernel])
    assert not list(tmp_path.iterdir())
    assert fit(None, estimator__kernels=[kernel]).n_cached_ == 0
