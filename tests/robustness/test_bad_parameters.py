"""Every parameter of every estimator with values that it cannot have: an error that names it, before any kernel."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from kernelkin import TwoStageMKMTRLClassifier, TwoStageMKMTRLRegressor, linear_kernels
from robustness.estimators import CLASSIFIERS, ESTIMATORS, KERNEL, Data, N, clean_data, fit, fitted, values

NAN = float("nan")
NO_NUMBERS = ["1", None, [1.0], 1j, NAN]
# Parameter -> what it cannot be. Truths are numbers to scikit-learn, zero and one, and to us.
WRONG = {
    **{name: [*NO_NUMBERS, -1.0, float("inf")] for name in ("C", "tol", "search_tol")},
    **{name: [*NO_NUMBERS, -1.0] for name in ("mu", "epsilon", "alpha", "alpha_precision")},
    "shrinkage": [*NO_NUMBERS, -0.1, 1.1],
    "evenness": [*NO_NUMBERS, -0.1, 1.0],
    "min_rank": [*NO_NUMBERS, 0.5, 4.0],
    "p": [*NO_NUMBERS, 0.5],
    **{name: ["3", 0, -1, 2.5, NAN] for name in ("max_iter", "n_rounds")},
    "n_jobs": ["2", 0, 1.5, NAN],
    "random_state": ["seed", -1, 1.5, 2**40],
    "normalize": ["none", 1, []],
    "solver": ["newton", None, 3],
    "loss": ["huber", None, 3],
    "class_weight": ["even", 3, {"no": "a"}, {"no": -1}, {"no": NAN}, {"maybe": 1}],
    "kernel": ["nope", 99, 1.5, [0], NAN],
    "prior": ["x", np.eye(2), np.full((3, 3), NAN), np.ones((3, 3)), np.triu(np.ones((3, 3))), 1j * np.eye(3)],
    "couplings": ["x", 3, [np.ones((3, 3))]],
    "cv": [0, 1, 1.5, "x", [], [([0], [99]), ([0], [1])]],
    "grid": [[], {"mu": []}, {"depth": [1]}, "mu"],
    "scoring": ["nope", 3],
    "cache": [3, []],
    "task_column": ["x", 99, 1.5, True],
}
KNOWN = {name: make().get_params(deep=False) for name, make in ESTIMATORS.items()}
CASES = [
    pytest.param(name, parameter, value, id=f"{name}-{parameter}-{at}")
    for parameter, wrong in WRONG.items()
    for name in ESTIMATORS
    if parameter in KNOWN[name]
    for at, value in enumerate(wrong)
]


def never(A, B):
    raise AssertionError("a kernel was evaluated before the parameters were checked")


@pytest.mark.parametrize(("name", "parameter", "value"), CASES)
def test_a_parameter_is_refused_by_name(name, parameter, value):
    data = clean_data(name)
    if parameter == "task_column":
        data = data._replace(tasks=None)
    with pytest.raises((ValueError, TypeError), match=f"{parameter}|cross-validation"):
        fit(name, data, **{parameter: value})


COUPLINGS = {
    "not square": (np.ones((3, 2)), r"coupling 'some' has shape \(3, 2\); 3 tasks need \(3, 3\)"),
    "of other tasks": (np.ones((2, 2)), r"coupling 'some' has shape \(2, 2\); 3 tasks need \(3, 3\)"),
    "of NaN": (np.full((3, 3), NAN), "coupling 'some' is not a finite symmetric matrix"),
    "not symmetric": (np.triu(np.ones((3, 3))), "coupling 'some' is not a finite symmetric matrix"),
    "indefinite": ([[1, 2, 0], [2, 1, 0], [0, 0, 1]], "coupling 'some' is not positive semi-definite"),
    "of another diagonal": (2 * np.eye(3), "coupling 'some' must have 1 on its diagonal.*task 'ada' has 2"),
    "complex": (1j * np.ones((3, 3)), "coupling 'some' is neither .* nor a matrix of real numbers"),
    "a word": ("some", "coupling 'some' is neither one label for each task nor a matrix"),
    "zero": (np.zeros((3, 3)), "coupling 'some' is zero: it links no tasks"),
    "too few groups": (["x", "y"], "coupling 'some' has 2 group labels, and there are 3 tasks"),
    "a missing group": (["x", None, "y"], "coupling 'some' has no group for task 'bea'"),
    "a group that is NaN": ([0.0, 0.0, NAN], "coupling 'some' has no group for task 'cyd'"),
    "mixed groups": ([1, "x", "y"], "the group labels of coupling 'some' are of mixed types"),
    "a task without a group": ({"ada": 1, "bea": 1}, "coupling 'some' has no label for task 'cyd'"),
}


@pytest.mark.parametrize("kind", COUPLINGS)
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if "couplings" in KNOWN[name]])
def test_a_coupling_is_refused_by_name(name, kind):
    value, message = COUPLINGS[kind]
    with pytest.raises(ValueError, match=message):
        # The two stages look at the diagonals of their kernels first, and learn nothing yet.
        fit(name, clean_data(name), couplings={"some": value}, **({} if "TwoStage" in name else {"kernels": never}))


class Product:
    """A kernel that is a class of the user's."""

    def __call__(self, A, B):
        return A @ B.T


KERNELS = {
    "none": ([], "kernels is an empty list"),
    "unknown": ("nope", "no kernel is named 'nope'"),
    "a class": (Product, "kernels has Product itself, which makes kernels: call it"),
    "a class in a list": ([Product(), Product], "kernels has Product itself"),
    "a family that was not called": (linear_kernels, "kernels has linear_kernels itself"),
    "a number": ([3], "a kernel is a name, a Kernel or a callable .*; got 3"),
    "a matrix": ([np.eye(N)], "a kernel is a name, a Kernel or a callable .*; got array"),
    "of one argument": (lambda A: A, "kernel '<lambda>': .*takes 1 positional argument"),
    "a constant": (lambda A, B: 1.0, r"kernel '<lambda>' gave values of shape \(\)"),
    "of another shape": (lambda A, B: A, "kernel '<lambda>' gave values of shape"),
    "NaN": (lambda A, B: NAN * (A @ B.T), "kernel '<lambda>' has NaN or infinite values"),
    "complex": (lambda A, B: 1j * (A @ B.T), "kernel '<lambda>' gave values of type complex128, not real numbers"),
    "text": (lambda A, B: "x", "kernel '<lambda>' gave values of type <U1, not real numbers"),
    "not symmetric": (lambda A, B: A @ B.T + np.arange(len(B)), "kernel '<lambda>' is not symmetric"),
    "indefinite": (lambda A, B: -(A @ B.T), "kernel '<lambda>' (is not positive semi-definite|has negative values k)"),
}


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("name", sorted(KERNEL))
def test_a_kernel_is_refused_by_name(name, kind):
    kernels, message = KERNELS[kind]
    with pytest.raises((ValueError, TypeError), match=message):
        fit(name, clean_data(name), kernels=kernels)


@pytest.mark.parametrize("parameter", ["C", "tol", "mu"])
@pytest.mark.parametrize("name", sorted(KERNEL))
def test_true_counts_as_one(name, parameter):
    """As it does in scikit-learn."""
    if parameter not in KNOWN[name]:
        pytest.skip(f"has no {parameter}")
    data = clean_data(name)
    found = values(fit(name, data, **{parameter: True}), data.X, data.tasks)
    np.testing.assert_array_equal(found, values(fit(name, data, **{parameter: 1.0}), data.X, data.tasks))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_columns_in_another_order_are_refused(name):
    clean = clean_data(name)
    X = pd.DataFrame(clean.X, columns=list("abc"))
    model = fit(name, clean._replace(X=X))
    np.testing.assert_array_equal(values(model, X, clean.tasks), values(fitted(name), clean.X, clean.tasks))
    for other in (X[["c", "a", "b"]], X.rename(columns={"b": "size"}), X[["a", "b"]]):
        with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
            model.predict(other, tasks=clean.tasks)


STREAMS = {
    "fewer columns": (lambda data: data._replace(X=data.X[:, :2]), "X has 2 features, but .* is expecting 3"),
    "other names": (lambda data: data._replace(X=data.X.rename(columns={"b": "z"})), "feature names should match"),
    "another order": (lambda data: data._replace(X=data.X[["c", "b", "a"]]), "feature names should match"),
    "dates": (lambda data: data._replace(X=data.X.astype("datetime64[s]")), "X, column 'a' holds dates or times"),
    "no tasks": (lambda data: data._replace(tasks=None), "this model has seen long data, and these are single"),
    "other classes": (lambda data: data._replace(y=[{}] * N), "Unknown label type"),
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("estimator", [TwoStageMKMTRLClassifier, TwoStageMKMTRLRegressor])
@pytest.mark.parametrize("before", ["fit", "partial_fit"])
def test_a_piece_that_does_not_fit_the_first_is_refused_and_changes_nothing(estimator, before, kind):
    name = estimator.__name__
    assert (name in CLASSIFIERS) == (estimator is TwoStageMKMTRLClassifier)
    clean = clean_data(name)
    model = clone(ESTIMATORS[name]())
    framed = clean if kind == "fewer columns" else clean._replace(X=pd.DataFrame(clean.X, columns=list("abc")))
    getattr(model, before)(framed.X, framed.y, tasks=framed.tasks)
    model.partial_fit(framed.X, framed.y, tasks=framed.tasks)
    expected = values(model, framed.X, framed.tasks)
    change, message = STREAMS[kind]
    piece: Data = change(framed)
    with pytest.raises((ValueError, TypeError), match=message):
        model.partial_fit(piece.X, piece.y, tasks=piece.tasks)
    np.testing.assert_array_equal(values(model, framed.X, framed.tasks), expected)
