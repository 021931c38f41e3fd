"""The estimate of a fit's memory against what NumPy allocates: an upper bound, and not a wild one."""

import numpy as np
import pytest
from sklearn.base import is_classifier

from kernelkin import (
    AverageRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    MultiTaskCV,
    all_models,
    gaussian_kernels,
    polynomial_kernels,
)
from kernelkin.exceptions import GramMemoryError
from kernelkin.paper import MeanRegressor, OLSRegressor
from memory.cases import MB, long, peak, wide

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

QUICK = {"tol": 0.3, "n_rounds": 500, "random_state": 0}
# Many small tasks, few large ones, and all tasks on the same rows.
SHAPES = {"many small": (long, (60, 60)), "few large": (long, (2, 550)), "wide": (wide, (400, 6))}
# Models on one kernel hold a matrix over the rows of all tasks; linear models hold copies of the rows.
POOLED = {"many small": (long, (40, 15)), "few large": (long, (2, 250)), "wide": (wide, (150, 4))}
LINEAR = {"many small": (long, (100, 40, 30)), "few large": (long, (2, 8000, 60)), "wide": (wide, (8000, 5, 40))}
MULTIVARIATE = {"many small": (wide, (400, 60, 30)), "few large": (wide, (8000, 3, 40)), "wide": (wide, (300, 4, 200))}
FAMILIES = {"MTFL": POOLED, "MTRL": POOLED, "FES": MULTIVARIATE, "MRCE": MULTIVARIATE}
FAMILIES |= dict.fromkeys(("Lasso", "OLS", "Mean"), LINEAR)


def shapes_of(model, estimator):
    """All shapes for one model of each formula; a classifier and a regressor differ in their machines alone."""
    if estimator is model.classifier and model.regressor:
        return ["few large"] if model.name in ("MK-MTRL", "MTRL") else []
    return SHAPES if model.name in ("MK-MTRL", "Two-stage MK-MTRL", "MTRL") else ["many small"]


CASES = [
    pytest.param(estimator, *FAMILIES.get(model.name, SHAPES)[shape], id=f"{estimator.__name__}, {shape}")
    for model in all_models()
    if model.name != "Kin"  # a search fits the others, one after the other
    for estimator in model.estimators
    for shape in shapes_of(model, estimator)
]


def assert_bounded(model, X, y, tasks):
    y = y > 0 if is_classifier(model) and y.dtype.kind == "f" else y
    estimate, used = model.estimate_memory(X, y, tasks), peak(model, X, y, tasks)
    assert used <= estimate <= 4 * used + 16 * MB, f"{used / MB:.1f} MB used, {estimate / MB:.1f} MB estimated"


@pytest.mark.parametrize(("estimator", "make", "size"), CASES)
def test_the_estimate_bounds_the_memory_of_every_model(estimator, make, size):
    model = estimator()
    known = model.get_params()
    model.set_params(**{name: value for name, value in QUICK.items() if name in known})
    if "alpha" in known:
        model.set_params(alpha=1.0)
    assert_bounded(model, *make(*size))


def four_classes(n_tasks, n):
    X, y, tasks = long(n_tasks, n)
    return X, np.digitize(y, [-1.0, 0.0, 1.0]), tasks


OTHERS = {
    "coupled, dense": (MKMTRLRegressor(couplings="common"), long(6, 80)),
    "coupled, wide": (MKMTRLRegressor(couplings="common"), wide(150, 5)),
    "coupled, hinge": (MKMTRLClassifier(couplings="common"), long(4, 80)),
    "coupled, low rank": (MKMTRLRegressor(polynomial_kernels([1, 2]), couplings="common"), long(8, 150, 3)),
    "panel": (MKMTRLRegressor(tol=0.1), wide(450, 200)),
    "panel, coupled": (MKMTRLRegressor(couplings="common", tol=0.1), wide(120, 60)),
    "kernels of single columns": (MKMTRLRegressor(gaussian_kernels([1.0], per_feature=True)), long(3, 300, 12)),
    "four classes": (MKMTRLClassifier(), four_classes(3, 200)),
    "search": (MKMTRLRegressorCV(grid={"C": [1.0, 10.0]}, cv=3), long(10, 60)),
    "search, many fits at a time": (
        MKMTRLRegressorCV(grid={"parsimony": [0.0, 0.5, 1.0], "C": [1.0]}, cv=2, n_jobs=4),
        long(3, 250),
    ),
    "search, folds without a panel": (MKMTRLRegressorCV(grid={"C": [1.0]}, cv=3, tol=0.1), wide(420, 100)),
    "search, coupled": (MKMTRLRegressorCV(grid={"couplings": ["common"]}, cv=3), long(4, 60)),
    "search of what shares nothing": (
        MultiTaskCV(OLSRegressor(), {"fit_intercept": [True, False]}, cv=3),
        long(2, 4000, 30),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_estimate_bounds_other_ways_of_fitting(name):
    model, (X, y, tasks) = OTHERS[name]
    assert_bounded(model, X, y, tasks)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_float32_rows_take_less_memory_and_have_a_smaller_estimate(loss):
    X, y, tasks = long(3, 600)
    model = MKMTRLClassifier(loss=loss, tol=0.3)
    single = X.astype(np.float32)
    assert_bounded(model, single, y > 0, tasks)
    assert model.estimate_memory(single, y > 0, tasks) < 0.75 * model.estimate_memory(X, y > 0, tasks)


def test_memory_does_not_grow_with_the_square_of_the_number_of_tasks():
    """Four times the tasks: four times the memory, where an array of T x T would be sixteen times as large."""
    model = MKMTRLRegressor("linear", tol=0.3)
    few, many = (long(T, 2, 1) for T in (100, 400))
    used = peak(model, *many)
    assert used <= model.estimate_memory(*many)
    assert used < 5 * peak(model, *few)
    assert model.estimate_memory(*long(2000, 2, 1)) < 5 * model.estimate_memory(*long(500, 2, 1))


def test_twenty_thousand_tasks_of_two_rows_are_fitted(monkeypatch):
    monkeypatch.setenv("KERNELKIN_MEMORY_GIB", "1")
    X, y, tasks = long(20_000, 2, 1)
    model = MeanRegressor().fit(X, y, tasks=tasks)
    np.testing.assert_allclose(model.predict(X, tasks=tasks), np.repeat(y.reshape(-1, 2).mean(axis=1), 2))


def test_the_relationship_of_many_tasks_is_refused_by_name_and_there_in_factors(monkeypatch):
    X, y, tasks = long(1000, 2, 1)
    model = AverageRegressor("linear").fit(X, y, tasks=tasks)
    monkeypatch.setenv("KERNELKIN_MEMORY_GIB", "0.01")
    message = (
        "task_relationship_ is a 1000 x 1000 array and needs 0.0149 GiB, but only 0.01 GiB are left: use "
        "`relation_`, which stores low-rank factors"
    )
    with pytest.raises(GramMemoryError, match=message):
        _ = model.task_relationship_
    monkeypatch.delenv("KERNELKIN_MEMORY_GIB")
    assert model.task_relationship_.shape == (1000, 1000)
    assert model.relation_.diagonal() / model.relation_.trace() == pytest.approx(np.diag(model.task_relationship_))
