"""Kernels made from training rows: groups of columns, and length scales by pooled evidence."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from kernelkin import MKMTRLRegressor
from kernelkin.data import read_training
from kernelkin.kernels import AutoKernels, RelevanceKernels, read_kernels, resolve_kernels
from kernelkin.kernels.groups import column_groups, group_name
from kernelkin.kernels.relevance import Sample, _Evidence, length_scales, make_sample


def table(n=60, seed=0):
    """Numbers a, b (a copy of a with noise), c; and a category of three values as indicator columns."""
    rng = np.random.default_rng(seed)
    a, c, category = rng.normal(size=n), rng.normal(size=n), rng.integers(0, 3, size=n)
    X = np.column_stack([a, a + 0.05 * rng.normal(size=n), c, *(category == k for k in range(3))]).astype(float)
    return X, np.sin(2 * c) + 0.1 * rng.normal(size=n)


def read(X, y, tasks=None):
    return read_training(X, y, tasks, None, classification=False)


def test_indicators_of_a_category_are_one_group_and_correlated_columns_a_block():
    X, _ = table()
    assert column_groups(X, 50) == [(3, 4, 5), (0,), (1,), (2,), (0, 1)]


def test_constant_columns_belong_to_no_group():
    X, _ = table()
    X[:, 2] = 7.0
    assert all(2 not in group for group in column_groups(X, 50))


def test_neighbouring_binary_columns_that_overlap_are_no_category():
    X = np.random.default_rng(1).integers(0, 2, size=(40, 3)).astype(float)
    assert column_groups(X, 50)[:3] == [(0,), (1,), (2,)]


def test_many_columns_are_joined_into_few_groups():
    rng = np.random.default_rng(2)
    factors = rng.normal(size=(50, 5))
    X = np.repeat(factors, 40, axis=1) + 0.1 * rng.normal(size=(50, 200))
    groups = column_groups(X, 5)
    assert sorted(map(sorted, groups)) == [list(range(40 * j, 40 * (j + 1))) for j in range(5)]


@pytest.mark.parametrize(
    ("group", "name"),
    [((0,), "age"), ((1, 2), "colour"), ((0, 3), "age, size"), ((0, 1, 2, 3), "age and 3 more")],
)
def test_names_of_groups(group, name):
    assert group_name(group, ["age", "colour=red", "colour=blue", "size"]) == name


def test_auto_kernels_cover_all_columns_and_each_group():
    X, y = table()
    names = [kernel.name for kernel in AutoKernels().fit(read(X, y))]
    assert names[:6] == [kernel.name for kernel in resolve_kernels(None)]
    assert names[6:] == [f"rbf(1 x median)[{name}]" for name in ("3, 4, 5", "0", "1", "2", "0, 1")]


def test_named_groups():
    X, y = table()
    names = [kernel.name for kernel in read_kernels({"left": [0, 1], "right": [2]}).fit(read(X, y))]
    assert [name for name in names if name.startswith("left")] == [
        "left: rbf(0.5 x median)", "left: rbf(1 x median)", "left: rbf(2 x median)", "left: linear",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="kernels is an empty dict: name one group of columns at least"):
        read_kernels({})


@pytest.mark.parametrize("own_rows", [True, False])
def test_the_gradient_of_the_evidence(own_rows):
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(30, 3)), rng.normal(size=(30, 2))
    tasks = rng.integers(0, 3, size=30) if own_rows else None
    evidence, theta = _Evidence(Sample(X, tasks, Y), np.zeros(3)), 0.3 * rng.normal(size=6)
    error = check_grad(lambda v: evidence(v)[0], lambda v: evidence(v)[1], theta)
    assert error < 1e-5 * np.linalg.norm(evidence(theta)[1])


def test_the_evidence_is_that_of_a_gaussian_process():
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(4)
    X, y, tasks = rng.normal(size=(12, 2)), rng.normal(size=12), rng.integers(0, 2, size=12)
    scale, signal, noise, rho = np.array([0.7, 1.9]), 1.3, 0.2, 0.6
    squares = (((X[:, None] - X[None]) / scale) ** 2).sum(axis=-1)
    K = signal * np.exp(-0.5 * squares) * (rho + (1 - rho) * (tasks[:, None] == tasks)) + noise * np.eye(12)
    theta = np.concatenate([np.log(scale), [np.log(signal), np.log(noise), np.log(rho / (1 - rho))]])
    value = _Evidence(Sample(X, tasks, y[:, None]), np.log(scale))(theta)[0]
    expected = -multivariate_normal(np.zeros(12), K).logpdf(y) - 6 * np.log(2 * np.pi)
    assert value == pytest.approx(expected, rel=1e-9)


def test_the_relevant_column_has_the_shortest_length_scale():
    rng = np.random.default_rng(5)
    X, tasks = rng.normal(size=(120, 8)), np.repeat(np.arange(4), 30)
    y = np.sin(2 * X[:, 3]) + 0.1 * rng.normal(size=120)
    rows = [np.flatnonzero(tasks == t) for t in range(4)]
    scales = length_scales(make_sample(X, rows, [y[r][:, None] for r in rows], wide=False))
    assert scales.argmin() == 3
    assert np.partition(scales, 1)[1] > 5 * scales[3]


def test_relevance_finds_one_column_of_ten():
    rng = np.random.default_rng(6)
    X, tasks = rng.normal(size=(160, 10)), np.repeat(np.arange(4), 40)
    y = np.sin(2 * X[:, 3]) + 0.1 * rng.normal(size=160)
    X_test, tasks_test = rng.normal(size=(400, 10)), rng.integers(0, 4, size=400)
    scores = {
        name: MKMTRLRegressor(kernels, C=10.0)
        .fit(X, y, tasks=tasks)
        .score(X_test, np.sin(2 * X_test[:, 3]), tasks=tasks_test)
        for name, kernels in {"plain": None, "relevance": "relevance"}.items()
    }
    assert scores["relevance"] > 0.9 > scores["plain"] + 0.3


def test_relevance_looks_at_targets_and_groups_do_not():
    assert RelevanceKernels().uses_targets and not AutoKernels().uses_targets
