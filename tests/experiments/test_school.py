"""The school experiment: the paper's 338 kernels beside one an attribute, on the same rows."""

import os

import numpy as np
import pytest
from sklearn.utils import Bunch

from experiments import school
from kernelkin.kernels.kernel import evaluate, fit_kernels

needs_data = pytest.mark.skipif(
    not os.environ.get("KERNELKIN_DATA"), reason="KERNELKIN_DATA does not name a folder with the data sets"
)


@pytest.fixture
def stand_in(monkeypatch):
    rng = np.random.default_rng(0)
    tasks = np.repeat(["a", "b"], [50, 30])
    data = Bunch(
        data=rng.normal(size=(80, 4)), target=rng.normal(size=80), tasks=tasks, task_names=np.array(["a", "b"])
    )
    monkeypatch.setattr(school, "_data", lambda: data)


def test_split_is_by_ratio_in_every_task(stand_in):
    split = school.split(school.FEW, 0)
    assert [(split.tasks == t).sum() for t in ("a", "b")] == [30, 18]
    assert [(split.tasks_test == t).sum() for t in ("a", "b")] == [20, 12]


def test_both_settings_have_the_same_rows(stand_in):
    """So that their columns can be compared run by run; many kernels in single precision."""
    few, many = (school.split(setting, 3) for setting in school.PROTOCOL.settings)
    assert np.array_equal(few.y, many.y) and np.array_equal(few.tasks_test, many.tasks_test)
    assert few.X.dtype == np.float64 and many.X.dtype == many.X_test.dtype == np.float32
    assert np.array_equal(few.X.astype(np.float32), many.X)


def test_the_kernels_are_as_many_as_the_paper_has():
    X = np.random.default_rng(0).normal(size=(10, school.N_COLUMNS))
    kernels = fit_kernels(school.LADDERS, X)
    assert len(kernels) == 13 * 26 == 338
    widths = {kernel.function.bandwidth for kernel in kernels}
    # The two that the paper names.
    assert len(widths) == 13 and {1e-4, 1.0} <= {round(width, 12) for width in widths}
    assert len(fit_kernels(school.EACH, X)) == 27


@needs_data
def test_the_column_left_out_has_the_kernels_of_another():
    """Male and female are one attribute turned round; no other two columns have the same Gaussians."""
    X = school.split(school.MANY, 0).X[::40]
    assert X.shape[1] == school.N_COLUMNS
    grams = evaluate(fit_kernels(school.EACH, X), X)
    same = [j for j in range(school.N_COLUMNS) if np.allclose(grams[j], grams[school.SECOND_GENDER], atol=1e-5)]
    assert same == [5, school.SECOND_GENDER]
    kept = grams[school.ATTRIBUTES].reshape(26, -1)
    distances = np.abs(kept[:, np.newaxis] - kept).max(axis=2) + np.eye(26)
    assert distances.min() > 0.1
