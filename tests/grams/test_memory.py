"""The peak of a fit, estimated before it starts, against what NumPy allocates."""

import tracemalloc

import numpy as np
import pytest

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.exceptions import GramMemoryError
from kernelkin.memory import memory_limit
from kernelkin.model_selection import MKMTRLRegressorCV

RNG = np.random.default_rng(0)


def long(n_tasks, n):
    X, tasks = RNG.normal(size=(n_tasks * n, 4)), np.repeat(np.arange(n_tasks), n)
    return X, np.sin(X[:, 0]) + 0.1 * RNG.normal(size=len(X)), tasks


def wide(n, n_tasks):
    X = RNG.normal(size=(n, 4))
    return X, np.sin(X[:, :n_tasks]) + 0.1 * RNG.normal(size=(n, n_tasks)), None


# Many tasks of their own rows, Grams that tasks share, and tasks in one machine.
SHAPES = {"long": (long(25, 200), None), "wide": (wide(600, 4), None), "coupled": (long(6, 110), "common")}


def peak(model, X, y, tasks):
    tracemalloc.start()
    model.fit(X, y, tasks=tasks)
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("loss", "dtype"), [("squared", np.float64), ("hinge", np.float64), ("hinge", np.float32)])
def test_the_estimate_is_right_within_a_fifth(shape, loss, dtype):
    (X, y, tasks), couplings = SHAPES[shape]
    X, y = X.astype(dtype), y > 0
    model = MKMTRLClassifier(loss=loss, couplings=couplings, tol=0.5)
    model.fit(X[:60], y[:60], tasks=None if tasks is None else np.arange(60) % 2)  # what is compiled and imported once
    assert model.estimate_memory(X, y, tasks) == pytest.approx(peak(model, X, y, tasks), rel=0.2)


@pytest.mark.parametrize("shape", SHAPES)
def test_cross_validation_is_estimated_too(monkeypatch, shape):
    (X, y, tasks), couplings = SHAPES[shape]
    asked = []
    monkeypatch.setattr("kernelkin.model_selection.search.check_memory", lambda need: asked.append(need.peak))
    model = MKMTRLRegressorCV(grid={"C": [1.0, 10.0]}, couplings=couplings, tol=0.5, search_tol=0.5)
    used = peak(model, X, y, tasks)
    assert asked[0] == pytest.approx(used, rel=0.2)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_fit_is_refused_where_the_estimate_is_above_the_limit(monkeypatch, shape):
    (X, y, tasks), couplings = SHAPES[shape]
    model = MKMTRLRegressor(couplings=couplings)
    needed = model.estimate_memory(X, y, tasks) / 2**30
    monkeypatch.setenv("KERNELKIN_MEMORY_GIB", str(0.99 * needed))
    with pytest.raises(GramMemoryError, match=rf"needs {needed:.3g} GiB of memory, .* GiB of them for Gram") as refused:
        model.fit(X, y, tasks=tasks)
    for way in ("TwoStageMKMTRL", "fewer kernels", "float32", "low rank", "KERNELKIN_MEMORY_GIB"):
        assert way in str(refused.value)


def test_a_fit_goes_through_where_the_estimate_is_at_the_limit(monkeypatch):
    X, y, tasks = long(2, 20)
    model = MKMTRLRegressor()
    monkeypatch.setattr("kernelkin.memory.available_memory", lambda: model.estimate_memory(X, y, tasks))
    assert np.isfinite(model.fit(X, y, tasks=tasks).objective_)


def test_estimating_leaves_the_estimator_alone():
    X, y, tasks = long(2, 20)
    model = MKMTRLRegressor()
    model.estimate_memory(X, y, tasks)
    assert vars(model) == vars(MKMTRLRegressor())


@pytest.mark.parametrize("text", ["much", "-1", "0", "nan"])
def test_a_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("KERNELKIN_MEMORY_GIB", text)
    with pytest.raises(ValueError, match="KERNELKIN_MEMORY_GIB must be a number of GiB"):
        memory_limit()
