"""Each estimator refuses bad data in `fit` and `predict`, and gives finite numbers on data that are merely extreme.

What exactly is refused, and in which words, is tested in `tests/data_forms`: all estimators read data by the same
functions. Warnings are errors, so that no number overflows in silence; only a fit that did not converge may warn.
"""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import kernelkin
from robustness.estimators import (
    CLASSIFIERS,
    ESTIMATORS,
    KERNEL,
    ONE_OF_EACH,
    WIDE,
    Data,
    N,
    clean_data,
    fit,
    fitted,
    values,
)
from tasks import in_turn

# Dense Grams, kernels evaluated in blocks, and one kernel over the rows of all tasks.
EVALUATIONS = ["MKMTRLClassifier", "TwoStageMKMTRLRegressor", "MTRLRegressor"]


def never(A, B):
    raise AssertionError("a kernel was evaluated before the input was checked")


@pytest.fixture
def without_convergence_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_bad_data_are_refused(name):
    """By `fit`, before any kernel is evaluated, and by `predict`; neither changes its input."""
    clean = clean_data(name)
    X = clean.X.copy()
    X[3, 1] = np.nan
    before = X.copy()
    with pytest.raises(ValueError, match=r"^X, column 1: Input X contains NaN: pass a data frame"):
        fit(name, clean._replace(X=X), **({"kernels": never} if name in KERNEL else {}))
    model = fitted(name)
    with pytest.raises(ValueError, match=r"^X, column 1: Input X contains NaN: pass a data frame"):
        model.predict(X, tasks=clean.tasks)
    # Kin predicts tasks that were not in training by default.
    if "Kin" not in name:
        with pytest.raises(
            ValueError, match=r"^unknown task 'eve'; this model knows ('ada', 'bea', 'cyd'|0, 1, 2)\. New tasks need"
        ):
            model.predict(clean.X, tasks=["eve"] * N)
    np.testing.assert_array_equal(X, before)


def _two_rows_each(data):
    """Two rows of each task, of two classes where there are classes."""
    if data.tasks is None:
        return Data(data.X[:2], data.y[:2])
    first = []
    for task in np.unique(data.tasks):
        rows = np.flatnonzero(data.tasks == task)
        first += [rows[0], rows[np.argmax(data.y[rows] != data.y[rows[0]])]]
    return Data(data.X[first], data.y[first], data.tasks[first])


SEARCHES = {name for name in ESTIMATORS if "CV" in name}
EXTREME = {
    "features of many scales": lambda data: data._replace(X=data.X * [1e-150, 1.0, 1e150]),
    "rows that differ in the last digits": lambda data: data._replace(X=data.X + 1e150),
    "constant features": lambda data: data._replace(X=np.full_like(data.X, 7.0)),
    "every row twice": lambda data: Data(*(None if part is None else np.concatenate([part, part]) for part in data)),
    "tasks of two rows": _two_rows_each,
    "weights of many scales": lambda data: data._replace(sample_weight=np.where(np.arange(N) % 2, 1e5, 1e-5)),
}
REFUSED = {
    ("tasks of two rows", name): r"^cross-validation has no rows to hold out"
    for name in CLASSIFIERS
    if name in SEARCHES
}


@pytest.mark.filterwarnings("ignore:.*the standard deviation of column:UserWarning")
@pytest.mark.filterwarnings("ignore:sample_weight is .* on average:UserWarning")
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_extreme_data_give_finite_numbers(name, without_convergence_warnings):
    for kind, change in EXTREME.items():
        data = change(clean_data(name))
        if (kind, name) in REFUSED:
            with pytest.raises(ValueError, match=REFUSED[kind, name]):
                fit(name, data)
            continue
        model = fit(name, data)
        found = values(model, data.X, data.tasks)
        assert found.shape == np.shape(data.y), kind
        assert np.isfinite(found).all(), kind
        assert 0 <= getattr(model, "duality_gap_", 0.0) < np.inf, kind


@pytest.mark.parametrize("name", [*EVALUATIONS, "STLClassifier", "MKMTFLRegressor", "KinRegressor", "OLSRegressor"])
def test_the_unit_of_the_features_does_not_matter(name):
    """About 1e-150 and 1e150, as powers of two, which leave the last bit alone."""
    clean = clean_data(name)
    expected = values(fitted(name), clean.X, clean.tasks)
    for scale in (2.0**-498, 2.0**498):
        model = fit(name, clean._replace(X=scale * clean.X))
        np.testing.assert_allclose(values(model, scale * clean.X, clean.tasks), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", EVALUATIONS)
def test_rows_to_predict_at_which_a_kernel_overflows(name):
    clean = clean_data(name)
    model = fit(name, clean, kernels="poly")
    with pytest.raises(ValueError, match=r"^kernel 'poly3?' overflows.* at rows to predict"):
        model.predict(1e140 * clean.X, tasks=clean.tasks)


PRECOMPUTED = {
    "not symmetric": (
        lambda grams: grams + np.triu(np.ones((N, N)), 1)[:, :, None],
        r"^kernel 'kernel 0' is not symmetric: k\(x, z\) and k\(z, x\) differ by 1$",
    ),
    "indefinite": (
        lambda grams: grams - 0.5 * np.eye(N)[:, :, None],
        r"^kernel 'kernel 0' (is not positive semi-definite on the training rows|has negative values k\(x, x\))",
    ),
    "zero": (lambda grams: grams * [1.0, 0.0], r"^kernel 'kernel 1' is zero on all training rows$"),
}


def grams_of(name):
    clean = clean_data(name)
    return np.stack([clean.X @ clean.X.T, np.exp(-((clean.X[:, None] - clean.X) ** 2).sum(axis=-1))], axis=2)


@pytest.mark.parametrize(("fault", "name"), in_turn(PRECOMPUTED, EVALUATIONS))
def test_a_bad_stack_of_grams_is_refused(fault, name):
    change, message = PRECOMPUTED[fault]
    with pytest.raises(ValueError, match=message):
        fit(name, clean_data(name)._replace(X=change(grams_of(name))), kernels="precomputed")


@pytest.mark.parametrize("name", EVALUATIONS)
def test_the_memory_layout_of_a_stack_of_grams_does_not_matter(name):
    data = clean_data(name)._replace(X=grams_of(name))
    expected = values(fit(name, data, kernels="precomputed"), data.X, data.tasks)
    for other in (np.asfortranarray(data.X), np.repeat(data.X, 2, axis=1)[:, ::2], data.X.copy()):
        other.setflags(write=False)
        model = fit(name, data._replace(X=other), kernels="precomputed")
        np.testing.assert_array_equal(values(model, other, data.tasks), expected)


def test_every_public_estimator_is_tested():
    names = {*kernelkin.__all__, *kernelkin.paper.__all__}
    public = {name for name in names if name.endswith(("Classifier", "Regressor", "Estimator", "CV"))}
    assert public == {name.split("(")[0] for name in ESTIMATORS}
    assert set(ESTIMATORS) >= WIDE
