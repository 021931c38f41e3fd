"""Bad input to the estimators: refused before any work, by name of the culprit."""

import numpy as np
import pytest
from models.problems import long_data, wide_data
from sklearn.exceptions import NotFittedError

from kernelkin import Kernel, MKMTRLClassifier, MKMTRLRegressor, linear_kernels
from kernelkin.exceptions import GramMemoryError
from kernelkin.kernels.families import CallableKernel

X, Y, LABELS, TASKS = long_data(0)
N = len(X)


def never(A, B):
    raise AssertionError("a kernel was evaluated before the input was checked")


def fit(X=X, y=Y, tasks=TASKS, **params):
    return MKMTRLRegressor(**params).fit(X, y, tasks=tasks)


def fit_classes(X=X, y=LABELS, tasks=TASKS, **params):
    return MKMTRLClassifier(**params).fit(X, y, tasks=tasks)


# Parameters


def test_a_bad_parameter_is_refused_by_name_before_any_kernel_is_evaluated():
    for name, value, message in [
        ("C", 0, r"'C' parameter of MKMTRLRegressor must be a float in the range \(0.0, inf\). Got 0"),
        ("min_rank", 3.5, r"min_rank=3.5 is larger than the number of tasks, 3"),
        ("prior", np.ones((3, 3)), r"prior is not positive definite: its smallest eigenvalue"),
        ("task_column", 0, r"the task of each row is given twice"),
        ("kernels", linear_kernels(columns=5), r"kernel 'linear\[5\]': column 5 is out of range, X has 3 columns"),
        (
            "kernels",
            linear_kernels(columns="age"),
            r"kernel 'linear\[age\]': 'age' is not a column of X, which has no column names",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            fit(**{"kernels": never, name: value})


def test_bad_data_are_refused_before_any_kernel_is_evaluated():
    """What is refused is tested in tests/data_forms; here, that it is refused first, and the message."""
    alone = np.where(np.arange(N) == 0, "eve", TASKS)
    with pytest.raises(ValueError, match=r"task 'eve' has one sample only .*; a task needs two or more"):
        fit(tasks=alone, kernels=never)
    with pytest.raises(ValueError, match=r"task 'bea' has one class only \(0\); a classifier needs two or more"):
        fit_classes(y=np.where(TASKS == "bea", 0, LABELS), kernels=never)
    with pytest.raises(ValueError, match=r"^X, column \d: Input X contains NaN: pass a data frame to Kin"):
        fit(X=np.where(np.arange(N)[:, None] == 3, np.nan, X), kernels=never)
    with pytest.raises(ValueError, match=r"Input y contains infinity"):
        fit(y=np.where(np.arange(N) == 3, np.inf, Y), kernels=never)
    with pytest.raises(ValueError, match=r"X has 42 rows, but tasks has 41"):
        fit(tasks=TASKS[:-1], kernels=never)
    with pytest.raises(ValueError, match=r"Unknown label type: continuous"):
        fit_classes(y=Y, kernels=never)
    with pytest.raises(ValueError, match=r"Unknown label type.*regressor"):
        fit(y=np.where(LABELS, "yes", "no"), kernels=never)


def test_class_weights_must_be_positive():
    for weight in (-1.0, 0.0, np.inf):
        with pytest.raises(ValueError, match=rf"class_weight must be positive, but class 1 has {weight}"):
            fit_classes(class_weight={1: weight}, kernels=never)


def test_class_weights_of_an_unknown_class_are_refused():
    with pytest.raises(ValueError, match=r"class_weight has unknown classes 'yes'; the classes are 0, 1"):
        fit_classes(class_weight={"yes": 2.0, 0: 1.0}, kernels=never)
    fit_classes(class_weight={0: 1.0, 1: 2.0, 2: 3.0})


def test_a_bad_start_is_refused_before_any_kernel_is_evaluated():
    for init, message in [
        (np.ones((6, 3)), r"init must be kernel weights of shape \(3, 6\), got \(6, 3\)"),
        (-np.ones((3, 6)), r"finite, non-negative and not all zero"),
        (np.zeros((3, 6)), r"finite, non-negative and not all zero"),
        (np.full((3, 6), "1"), r"finite, non-negative and not all zero"),
    ]:
        kernels = [Kernel(f"kernel {k}", CallableKernel(never)) for k in range(6)]
        with pytest.raises(ValueError, match=message):
            fit(init=init, kernels=kernels)


def test_a_start_for_kernels_of_each_feature():
    each = linear_kernels(per_feature=True)
    fit(init=np.ones((3, 3)), kernels=each)
    with pytest.raises(ValueError, match=r"init must be kernel weights of shape \(3, 3\), got \(3, 1\)"):
        fit(init=np.ones((3, 1)), kernels=each)


# Kernels


def wrong_shape(A, B):
    return np.ones((len(A), 3))


def not_finite(A, B):
    return np.where(np.arange(len(B)) == 2, np.nan, A @ B.T)


def lopsided(A, B):
    return 5 + A[:, :1] + np.zeros((1, len(B)))


def indefinite(A, B):
    return A[:, :1] @ B[:, :1].T - A[:, 1:2] @ B[:, 1:2].T


def nothing(A, B):
    return np.zeros((len(A), len(B)))


BAD_KERNELS = [
    (wrong_shape, r"kernel 'wrong_shape' returned values of shape \(\d+, 3\), expected"),
    (not_finite, r"kernel 'not_finite' has NaN or infinite values"),
    (lopsided, r"kernel 'lopsided' is not symmetric"),
    (indefinite, r"kernel 'indefinite' is not positive semi-definite .*: smallest eigenvalue -\d"),
    (nothing, r"kernel 'nothing' is zero on all training rows"),
]


# Long data are in tests/robustness.
def test_a_bad_kernel_is_refused_by_name_on_wide_data():
    for kernel, message in BAD_KERNELS:
        X, Y = wide_data()
        with pytest.raises(ValueError, match=message):
            fit(X, Y, tasks=None, kernels=["rbf", kernel])


def test_the_smallest_eigenvalue_is_the_true_one():
    with pytest.raises(
        ValueError, match=r"^kernel 'indefinite' is not positive semi-definite on the training rows: smallest"
    ) as caught:
        MKMTRLRegressor(indefinite).fit(X, Y)
    reported = float(str(caught.value).split("smallest eigenvalue ")[1].split(",")[0])
    assert reported == pytest.approx(np.linalg.eigvalsh(indefinite(X, X))[0], rel=1e-2)


def test_a_kernel_may_be_zero_on_the_rows_of_one_task():
    silent = np.where((TASKS == "ada")[:, None], 0.0, X)
    model = fit(X=silent, kernels=["linear"])
    np.testing.assert_allclose(model.predict(silent, tasks=["ada"] * N), Y[TASKS == "ada"].mean())


# Memory


def test_memory_is_checked_before_any_kernel_is_evaluated(monkeypatch):
    monkeypatch.setenv("KERNELKIN_MEMORY_GIB", "1e-7")
    with pytest.raises(GramMemoryError, match=r"this fit may need .* GiB of memory, .* are allowed \(KERNELKIN_MEMORY"):
        fit(kernels=never)


# Queries


@pytest.fixture(scope="module")
def model():
    return fit()


def test_an_unknown_task_is_named_beside_the_known_ones(model):
    with pytest.raises(ValueError, match=r"unknown task 'eve'; this model knows 'ada', 'bea', 'cyd'"):
        model.predict(X, tasks=np.where(np.arange(N) == 5, "eve", TASKS))
    with pytest.raises(ValueError, match=r"unknown task 'eve'; this model knows 'ada', 'bea', 'cyd'"):
        model.score(X, Y, tasks=["eve"] * N)


def test_bad_queries_are_refused(model):
    with pytest.raises(ValueError, match=r"fitted on 3 tasks \('ada', 'bea', 'cyd'\) and needs the task of each row"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"X has 42 rows, but tasks has 3"):
        model.predict(X, tasks=TASKS[:3])
    with pytest.raises(ValueError, match=r"X has 2 features, but MKMTRLRegressor is expecting 3"):
        model.predict(X[:, :2], tasks=TASKS)
    with pytest.raises(ValueError, match=r"^X, column \d: Input X contains NaN: pass a data frame to Kin"):
        model.predict(X * np.nan, tasks=TASKS)
    with pytest.raises(ValueError, match=r"fitted on one task, without tasks: leave them out"):
        fit(tasks=None).predict(X, tasks=TASKS)
    with pytest.raises(NotFittedError):
        MKMTRLRegressor().predict(X, tasks=TASKS)


def test_precomputed_queries_must_fit_the_training_rows_and_kernels():
    given = fit(X=np.stack([X @ X.T, np.eye(N)], axis=2), kernels="precomputed")
    for shape in ((3, N, 1), (3, N, 3), (3, N - 1, 2), (3, N)):
        got = ", ".join(map(str, shape))
        message = rf"must have shape \(n_query, 42, 2\): 42 training rows, 2 kernels; got \({got}"
        with pytest.raises(ValueError, match=message):
            given.predict(np.ones(shape), tasks=TASKS[:3])
    alone = fit(X=X @ X.T, kernels="precomputed")
    np.testing.assert_array_equal(
        alone.predict(X @ X.T, tasks=TASKS), alone.predict((X @ X.T)[:, :, None], tasks=TASKS)
    )
