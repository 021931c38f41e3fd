"""What Gram matrices of other precision take, and what is said where there is too little memory for them."""

import numpy as np
import pytest

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.exceptions import GramMemoryError
from robustness.memory_cases import long, peak, wide

# Tasks of their own rows, Grams that tasks share, and tasks in one machine.
SHAPES = {"long": (long(10, 200), None), "wide": (wide(500, 4), None), "coupled": (long(6, 110), "common")}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_the_estimate_holds_for_float32(shape, loss):
    (X, y, tasks), couplings = SHAPES[shape]
    model = MKMTRLClassifier(loss=loss, couplings=couplings, tol=0.5)
    X, y = X.astype(np.float32), y > 0
    assert model.estimate_memory(X, y, tasks) == pytest.approx(peak(model, X, y, tasks), rel=0.2)


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


def test_estimating_leaves_the_estimator_alone():
    X, y, tasks = long(2, 20)
    model = MKMTRLRegressor()
    model.estimate_memory(X, y, tasks)
    assert vars(model) == vars(MKMTRLRegressor())
