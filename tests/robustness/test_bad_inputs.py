"""Every estimator with every fault: refused by name, or a finite answer; never a changed input.

What is merely odd is fitted, and the same data put differently give the same answer to the last bit. Warnings are
errors, so that no number overflows in silence; only a fit that says it did not converge may warn.
"""

import copy
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import kernelkin
from kernelkin import TwoStageMKMTRLClassifier, TwoStageMKMTRLRegressor
from robustness.estimators import (
    CLASSIFIERS,
    ESTIMATORS,
    KERNEL,
    LONG,
    WIDE,
    Data,
    N,
    clean_data,
    fit,
    fitted,
    pairs,
    values,
)
from robustness.faults import DISGUISES, FAULTS, ODD, QUERIES

SOURCES = (str(Path(kernelkin.__file__).parent), str(Path("sklearn", "utils")))


def never(A, B):
    raise AssertionError("a kernel was evaluated before the input was checked")


@pytest.fixture
def refuses():
    """Call, and see that it is refused in these words, by the library or by scikit-learn -> all it says."""

    def check(message, function, *arguments, **options):
        with pytest.raises((ValueError, TypeError), match=f"(?s){message}") as caught:
            function(*arguments, **options)
        innermost = traceback.extract_tb(caught.value.__traceback__)[-1].filename
        assert any(source in innermost for source in SOURCES), innermost
        return str(caught.value)

    return check


@pytest.fixture
def quietly():
    """A fit may say that it did not converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def assert_unchanged(given, before):
    for left, right in zip(given, before, strict=True):
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            assert left.tobytes() == right.tobytes() if left.dtype.kind != "O" else repr(left) == repr(right)


@pytest.mark.parametrize(("fault", "name"), pairs(FAULTS, lambda fault: fault.among))
def test_a_fault_is_refused_by_name(fault, name, refuses):
    data = FAULTS[fault].change(clean_data(name))
    before = copy.deepcopy(data)
    # What is wrong with the data shows before any kernel is evaluated.
    lazy = {"kernels": never} if name in KERNEL else {}
    refuses(FAULTS[fault].message, fit, name, data, **lazy)
    assert_unchanged(data, before)


@pytest.mark.parametrize(("odd", "name"), pairs(ODD, lambda odd: odd.among))
def test_odd_data_give_a_finite_answer_or_the_documented_error(odd, name, quietly, refuses):
    data = ODD[odd].change(clean_data(name))
    before = copy.deepcopy(data)
    refusal = ODD[odd].refusals.get(name)
    try:
        model = fit(name, data)
    except ValueError as error:
        refuses(refusal or "an error that is documented", raise_, error)
    else:
        found = values(model, data.X, data.tasks)
        assert found.shape == np.shape(data.y)
        assert np.isfinite(found).all()
        assert_certified(model)
    assert_unchanged(data, before)


def raise_(error):
    raise error


def assert_certified(model):
    """Where there is a gap it is a number that is not negative."""
    if hasattr(model, "duality_gap_"):
        assert np.isfinite(getattr(model, "objective_", 0.0))
        assert 0 <= model.duality_gap_ < np.inf


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_same_data_put_differently_give_the_same_answer(disguise, name):
    clean, data = clean_data(name), DISGUISES[disguise](clean_data(name))
    before = copy.deepcopy(data)
    model = fit(name, data)
    found = values(model, data.X, data.tasks)
    np.testing.assert_array_equal(found, values(fitted(name), clean.X, clean.tasks))
    assert_unchanged(data, before)
    if "class" in disguise and name in CLASSIFIERS:
        there = dict(zip(np.asarray(clean.y).tolist(), np.asarray(data.y).tolist(), strict=True))
        expected = [there[label] for label in fitted(name).predict(clean.X, tasks=clean.tasks)]
        assert model.predict(data.X, tasks=data.tasks).tolist() == expected


@pytest.mark.parametrize("name", sorted(LONG))
def test_the_order_of_rows_does_not_matter(name):
    """Sorted by task or not; the draws of the two-stage models go by the order of rows, and those of folds too."""
    if "TwoStage" in name or "CV" in name:
        pytest.skip("draws at random from rows in their order")
    clean = clean_data(name)
    order = np.argsort(clean.tasks, kind="stable")
    model = fit(name, Data(clean.X[order], clean.y[order], clean.tasks[order]))
    expected = values(fitted(name), clean.X, clean.tasks)
    # Models of one kernel over all rows add these up in their order.
    np.testing.assert_allclose(values(model, clean.X, clean.tasks), expected, rtol=0 if "MK" in name else 1e-9)


@pytest.mark.parametrize("scale", [2.0**-498, 2.0**498])
@pytest.mark.parametrize("name", sorted(KERNEL | {"OLSRegressor", "MeanRegressor"}))
def test_the_unit_of_the_features_does_not_matter(name, scale):
    """About 1e-150 and 1e150, as powers of two, which leave the last bit alone."""
    clean = clean_data(name)
    model = fit(name, clean._replace(X=scale * clean.X))
    expected = values(fitted(name), clean.X, clean.tasks)
    np.testing.assert_allclose(values(model, scale * clean.X, clean.tasks), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("query", "name"), pairs(QUERIES, lambda query: query.among))
def test_a_bad_query_is_refused_by_name(query, name, refuses):
    clean = clean_data(name)
    X, tasks = QUERIES[query].change(clean.X, clean.tasks)
    before = copy.deepcopy((X, tasks))
    refuses(QUERIES[query].message, fitted(name).predict, X, tasks=tasks)
    assert_unchanged((X, tasks), before)


@pytest.mark.parametrize("name", sorted(KERNEL))
def test_rows_so_large_that_a_kernel_overflows_are_refused_by_its_name(name, refuses):
    clean = clean_data(name)
    model = fit(name, clean, kernels="poly")
    said = refuses("kernel 'poly3?' overflows", model.predict, 1e140 * clean.X, tasks=clean.tasks)
    assert "at rows to predict" in said


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_a_hundred_thousand_tasks_of_one_row_are_refused_at_once(name, refuses):
    n = 100_000
    y = np.resize(["no", "yes"], n) if name in CLASSIFIERS else np.zeros(n)
    lazy = {"kernels": never} if name in KERNEL else {}
    said = refuses("task 0 has one sample", fit, name, Data(np.ones((n, 2)), y, np.arange(n)), **lazy)
    assert "a task needs two or more" in said and len(said) < 200


@pytest.mark.parametrize("estimator", [TwoStageMKMTRLClassifier, TwoStageMKMTRLRegressor])
def test_a_stream_of_tasks_of_one_row_learns_nothing_and_says_so(estimator, refuses):
    n = 100_000
    X = np.random.default_rng(0).normal(size=(n, 2))
    y = np.resize(["no", "yes"], n) if estimator is TwoStageMKMTRLClassifier else X[:, 0]
    model = estimator("linear").partial_fit(X, y, tasks=np.arange(n))
    assert model.n_skipped_ == n
    refuses("task 0 has one sample only", model.predict, X[:1], tasks=[0])


PRECOMPUTED = {
    "not square": (lambda grams: grams[:, :-1], "precomputed training Grams must be square"),
    "NaN": (lambda grams: np.where(grams == grams.max(), np.nan, grams), "Input X contains NaN"),
    "not symmetric": (lambda grams: grams + np.triu(np.ones((N, N)), 1)[:, :, None], "'kernel 0' is not symmetric"),
    "indefinite": (lambda grams: grams - 9 * np.eye(N)[:, :, None], "'kernel 0' is not positive semi-definite"),
    "zero": (lambda grams: grams * [1.0, 0.0], "kernel 'kernel 1' is zero on all training rows"),
    "too many dimensions": (lambda grams: grams[..., None], r"a precomputed X has shape .* not \(36, 36, 2, 1\)"),
}


def grams_of(name):
    clean = clean_data(name)
    return np.stack([clean.X @ clean.X.T, np.exp(-((clean.X[:, None] - clean.X) ** 2).sum(axis=-1))], axis=2)


@pytest.mark.parametrize("fault", PRECOMPUTED)
@pytest.mark.parametrize("name", sorted(KERNEL))
def test_a_bad_stack_of_grams_is_refused_by_name(name, fault, refuses):
    change, message = PRECOMPUTED[fault]
    data = clean_data(name)._replace(X=change(grams_of(name)))
    before = copy.deepcopy(data)
    refuses(message, fit, name, data, kernels="precomputed")
    assert_unchanged(data, before)


@pytest.mark.parametrize("name", sorted(KERNEL))
def test_a_stack_of_grams_may_lie_in_memory_as_it_likes(name):
    data = clean_data(name)._replace(X=grams_of(name))
    expected = values(fit(name, data, kernels="precomputed"), data.X, data.tasks)
    for other in (np.asfortranarray(data.X), np.repeat(data.X, 2, axis=1)[:, ::2], data.X.copy()):
        other.setflags(write=False)
        before = other.copy()
        model = fit(name, data._replace(X=other), kernels="precomputed")
        np.testing.assert_array_equal(values(model, other, data.tasks), expected)
        np.testing.assert_array_equal(other, before)


def test_every_estimator_is_in_the_matrix():
    public = {name for name in kernelkin.__all__ if name.endswith(("Classifier", "Regressor", "CV"))}
    assert public == {name.split("(")[0] for name in ESTIMATORS}
    assert set(ESTIMATORS) >= WIDE
