"""Parameters with values that they cannot have: an error that names them, before any kernel is evaluated."""

import re

import numpy as np
import pytest

from kernelkin import linear_kernels
from robustness.estimators import ESTIMATORS, clean_data, fit

NAN = float("nan")
POSITIVE, NOT_NEGATIVE = r"a float in the range \(0\.0, inf\)", r"a float in the range \[0\.0, inf\)"
COUNT = r"an int in the range \[1, inf\)"
NAMES = r"a str among \{.+\}.*"
# Parameter -> what it cannot be, and what it must be in scikit-learn's words.
CONSTRAINTS = {
    "C": ([-1.0, 0, NAN, "1"], POSITIVE),
    "mu": ([-1.0, 0, NAN, None], rf"{POSITIVE}( or a str among \{{'scale'\}})?"),
    "tol": ([-1.0, NAN], r"a float in the range [\[(]0\.0, inf\)"),
    "search_tol": ([0.0, NAN], POSITIVE),
    "epsilon": ([-1.0, None], NOT_NEGATIVE),
    "alpha": ([-1.0, NAN], r"a float in the range [\[(]0\.0, inf\)"),
    "alpha_precision": ([-1.0, NAN], NOT_NEGATIVE),
    "shrinkage": ([-0.1, 1.1], r"a float in the range \[0\.0, 1\.0\]"),
    "evenness": ([-0.1, 1.0], r"a float in the range \[0\.0, 1\.0\)"),
    "min_rank": ([0.5, None], r"a float in the range \[1\.0, inf\)"),
    "p": ([0.5, NAN], r"a float in the range \[[12]\.0, inf[\])]"),
    "max_iter": ([0, 2.5, "3"], COUNT),
    "n_rounds": ([0, 2.5], COUNT),
    "n_jobs": ([1.5, "2"], r"an instance of 'int' or None"),
    "random_state": ([-1, 2**40], r"an int in the range \[0, 4294967295\], an instance of '.+RandomState' or None"),
    "normalize": (["none", 1], NAMES),
    "solver": (["newton", None], NAMES),
    "loss": (["huber", None], NAMES),
    "class_weight": (["even", 3], r"an instance of 'dict', a str among \{'balanced'\} or None"),
    "cv": ([1, 1.5], r"an int in the range \[2, inf\)(, a str among \{'groups'\})? or an object .+ '__iter__'"),
    "grid": (["mu"], r"an instance of 'dict'(,| or) an instance of 'list'( or None)?"),
    "scoring": ([3], r"an instance of 'str', a callable or None"),
}


# Parameters that are also objects of one's own; `OTHERS` has what is said of those that are not.
OBJECTS = {"MultiTaskKernelClassifier": {"solver"}, "MultiTaskKernelRegressor": {"solver"}}


def message_of(name, parameter, value):
    """What `fit` says of a value; None where it says nothing."""
    try:
        fit(name, clean_data(name), **{parameter: value})
    except ValueError as error:
        return str(error)
    except Exception as error:
        return repr(error)
    return None


def test_every_estimator_declares_the_constraints_of_its_parameters():
    wrong_messages = {}
    for name, make in ESTIMATORS.items():
        estimator = make()
        for parameter in estimator.get_params(deep=False).keys() & CONSTRAINTS.keys() - OBJECTS.get(name, set()):
            wrong, must = CONSTRAINTS[parameter]
            subject = rf"The '{parameter}' parameter of {type(estimator).__name__}"
            for value in wrong:
                found = message_of(name, parameter, value)
                if not re.fullmatch(rf"{subject} must be {must}\. Got {re.escape(repr(value))} instead\.", str(found)):
                    wrong_messages[name, parameter, repr(value)] = found
    assert not wrong_messages


# What depends on the data or on other parameters: the parameter of one estimator that has it, and the message.
OTHERS = [
    (
        "MultiTaskKernelRegressor",
        "solver",
        "newton",
        r"solver 'newton' cannot solve a Problem with the relation penalty; use .+",
    ),
    ("MultiTaskKernelRegressor", "penalty", 3, r"penalty must be 'relation', .+, got 3"),
    ("MKMTRLRegressor", "min_rank", 4.0, r"min_rank=4 is larger than the number of tasks, 3"),
    ("MKMTRLRegressor", "n_jobs", 0, r"n_jobs must not be 0: use 1 for one thread, or -1 for all processors"),
    ("MKMTRLClassifier", "class_weight", {"no": NAN}, r"class_weight must be positive, but class 'no' has nan"),
    (
        "MKMTRLClassifier",
        "class_weight",
        {"maybe": 1},
        r"class_weight has unknown classes 'maybe'; the classes are 'no', 'yes'",
    ),
    ("STLClassifier", "kernel", "nope", r"unknown kernel='nope'; the kernels are 'rbf\(0\.25 x median\)', .+"),
    ("STLClassifier", "kernel", 99, r"kernel=99 is not the position of one of the 6 kernels"),
    ("MKMTRLRegressor", "prior", "x", r"The 'prior' parameter of .+ must be an array-like or None\. Got 'x' instead\."),
    ("MKMTRLRegressor", "prior", np.eye(2), r"prior has shape \(2, 2\), not \(3, 3\)"),
    ("MKMTRLRegressor", "prior", 1j * np.eye(3), r"prior must be real, but has complex entries"),
    ("MKMTRLRegressor", "couplings", "x", r"couplings must be None, 'common' or a dict, got 'x'"),
    (
        "MKMTRLRegressorCV",
        "cv",
        "x",
        r"cv: fold 0 is not a pair of training and test rows of X: arrays used as indices .+",
    ),
    ("MKMTRLRegressorCV", "cv", [], r"cross-validation needs two or more folds, but cv gave 0"),
    (
        "MKMTRLRegressorCV",
        "cv",
        [([0], [99]), ([0], [1])],
        r"cv: fold 0 is not a pair of training and test rows of X: index 99 is out of bounds for axis 0 with size 36",
    ),
    ("MKMTRLRegressorCV", "grid", [], r"grid is an empty list: it has no candidates"),
    (
        "MKMTRLRegressorCV",
        "grid",
        {"mu": []},
        r"Parameter grid for parameter 'mu' need to be a non-empty sequence, got: \[\]",
    ),
    (
        "MKMTRLRegressorCV",
        "grid",
        {"depth": [1]},
        r"'depth' cannot be in the grid of MKMTRLRegressor; allowed parameters: 'C', .+",
    ),
    ("MKMTRLRegressorCV", "scoring", "nope", r"'nope' is not a valid scoring value\. .+"),
]


@pytest.mark.parametrize(("name", "parameter", "value", "message"), OTHERS)
def test_constraints_that_depend_on_the_data_or_on_other_parameters(name, parameter, value, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        fit(name, clean_data(name), **{parameter: value})


def never(A, B):
    raise AssertionError("a kernel was evaluated before the parameters were checked")


NO_COUPLING = "coupling 'some' is neither one label for each task nor a matrix of real numbers"
COUPLINGS = {
    "not square": (np.ones((3, 2)), r"coupling 'some' has shape \(3, 2\); 3 tasks need \(3, 3\), or one label each"),
    "of NaN": (np.full((3, 3), NAN), "coupling 'some' is not a finite symmetric matrix"),
    "not symmetric": (np.triu(np.ones((3, 3))), "coupling 'some' is not a finite symmetric matrix"),
    "indefinite": (
        [[1, 2, 0], [2, 1, 0], [0, 0, 1]],
        "coupling 'some' is not positive semi-definite: its smallest eigenvalue is -1",
    ),
    "of another diagonal": (
        2 * np.eye(3),
        "coupling 'some' must have 1 on its diagonal, or 0 for tasks that it does not couple; task 'ada' has 2",
    ),
    "complex": (1j * np.ones((3, 3)), NO_COUPLING),
    "a word": ("some", NO_COUPLING),
    "zero": (np.zeros((3, 3)), "coupling 'some' is zero: it links no tasks"),
    "too few groups": (["x", "y"], "coupling 'some' has 2 group labels, but there are 3 tasks"),
    "a missing group": (["x", None, "y"], "coupling 'some' has no group for task 'bea'"),
    "mixed groups": ([1, "x", "y"], "the group labels of coupling 'some' are of mixed types"),
    "a task without a group": ({"ada": 1, "bea": 1}, "coupling 'some' has no label for task 'cyd'"),
}


@pytest.mark.parametrize("kind", COUPLINGS)
def test_a_coupling_is_refused_by_name(kind):
    value, message = COUPLINGS[kind]
    with pytest.raises(ValueError, match=f"^{message}$"):
        fit("MKMTRLRegressor", clean_data("MKMTRLRegressor"), couplings={"some": value}, kernels=never)


class Product:
    """A kernel that is a class of the user's."""

    def __call__(self, A, B):
        return A @ B.T


KERNELS = {
    "none": ([], "kernels is an empty list: pass at least one kernel, or None for the default kernels"),
    "unknown": ("nope", r"unknown kernel 'nope'; known names: \['additive_chi2', .+, 'tanimoto'\]"),
    "a class": (Product, "kernels contains Product itself; call it: Product\\(\\)"),
    "a family that was not called": (
        linear_kernels,
        "kernels contains linear_kernels itself; call it: linear_kernels\\(\\)",
    ),
    "a number": ([3], r"a kernel must be a name, a Kernel or a callable \(X, Y\) -> matrix; got 3"),
    "of one argument": (lambda A: A, r"kernel '<lambda>': .+ takes 1 positional argument but 2 were given"),
    "of another shape": (lambda A, B: A, r"kernel '<lambda>' returned values of shape \(12, 3\), expected \(12, 12\)"),
    "NaN": (
        lambda A, B: NAN * (A @ B.T),
        r"kernel '<lambda>' has NaN or infinite values, the first at \(0, 0\); are its inputs too large or too small\?",
    ),
    "complex": (lambda A, B: 1j * (A @ B.T), "kernel '<lambda>' returned values of type complex128, not real numbers"),
    "not symmetric": (
        lambda A, B: A @ B.T + np.arange(len(B)),
        r"kernel '<lambda>' is not symmetric: k\(x, z\) and k\(z, x\) differ by 11",
    ),
    "indefinite": (
        lambda A, B: -(A @ B.T),
        r"kernel '<lambda>' is not positive semi-definite on the training rows: smallest eigenvalue -14\.9, mean of "
        r"the diagonal -2\.88\. Use another kernel, or clip its Gram matrix with kernelkin\.kernels\.nearest_psd.+",
    ),
}


@pytest.mark.parametrize("kind", KERNELS)
def test_a_kernel_is_refused_by_name(kind):
    kernels, message = KERNELS[kind]
    with pytest.raises((ValueError, TypeError), match=f"^{message}$"):
        fit("MKMTRLRegressor", clean_data("MKMTRLRegressor"), kernels=kernels)
