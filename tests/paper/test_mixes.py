"""Kernel weights chosen for each task of wide data: errors, weights, choices, and the estimator that uses them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score

from kernelkin import MKMTRLRegressorCV
from kernelkin.paper.grams.operator import SharedOperator
from kernelkin.paper.mixes import (
    STRENGTHS,
    Mix,
    bounded_least_squares,
    choose_mixes,
    expected_gains,
    gain_of_own_weights,
    mean_strengths,
    shrunk_components,
)

N, T = 24, 5
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(3, N, 4))
STACK = np.array([Z @ Z.T / 4 for Z in FEATURES])
Y = np.column_stack([FEATURES[t % 3] @ RNG.normal(size=4) for t in range(T)]) + 0.5 * RNG.normal(size=(N, T)) + 2.0
MIX, STRENGTH = np.array([0.5, 0.3, 0.2]), 0.7


def operator_on(arrays, stack=STACK):
    return SharedOperator(arrays, arrays.array(stack))


def mix_on(arrays, targets, intercept, weights=MIX, stack=STACK):
    """A mix on the rows, with centred targets."""
    targets = targets - targets.mean(axis=0) if intercept else targets
    return Mix(operator_on(arrays, stack), arrays.array(targets), intercept, np.asarray(weights))


def ridge(gram, y, intercept):
    """Dual variables and intercept of a ridge machine of cost 1, by its optimality conditions."""
    n = len(y)
    system = np.block([[gram + np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    if not intercept:
        return np.linalg.solve(gram + np.eye(n), y), 0.0
    found = np.linalg.solve(system, np.append(y, 0.0))
    return found[:n], found[n]


@pytest.mark.parametrize("intercept", [False, True])
def test_left_out_errors_are_those_of_refits(arrays, intercept):
    mix = mix_on(arrays, Y, intercept)
    found = arrays.numpy(mix.left_out(mix.vectors.T @ mix.Y, STRENGTH))
    gram = STRENGTH * np.tensordot(MIX, STACK, 1)
    for i in range(N):
        kept = np.delete(np.arange(N), i)
        for t in range(T):
            a, c = ridge(gram[np.ix_(kept, kept)], Y[kept, t], intercept)
            np.testing.assert_allclose(found[i, t], Y[i, t] - gram[i, kept] @ a - c, atol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_scoring_step_solves_the_equations_of_variance_components(arrays, intercept):
    mix = mix_on(arrays, Y, intercept)
    P = np.eye(N) - (1 / N if intercept else 0.0)
    R = np.linalg.pinv(P @ (STRENGTH * np.tensordot(MIX, STACK, 1) + np.eye(N)) @ P)
    parts = [np.eye(N), *STACK]
    S = np.array([[np.trace(R @ first @ R @ second) for second in parts] for first in parts])
    np.testing.assert_allclose(mix.information(STRENGTH), S, rtol=1e-9)
    moments = [arrays.numpy(row) for row in mix.moments(arrays.array(P @ Y), STRENGTH)]
    expected = [np.einsum("it,ij,jt->t", Y, R @ part @ R, Y) for part in parts]
    np.testing.assert_allclose(moments[:-1], expected, rtol=1e-9)
    np.testing.assert_allclose(moments[-1], np.einsum("it,ij,jt->t", Y, R, Y), rtol=1e-9)


def test_components_of_many_rows_are_those_of_the_task():
    S, theta = np.diag([50.0, 20.0, 10.0]), np.array([[1.0, 1.0], [0.0, 2.0], [3.0, 0.5]])
    np.testing.assert_allclose(shrunk_components(1e8 * S, 1e8 * S @ theta), theta, atol=1e-4)
    alike = shrunk_components(1e-8 * S, 1e-8 * S @ theta)
    np.testing.assert_allclose(alike[:, 0], alike[:, 1], rtol=1e-2)


def test_components_are_the_best_that_are_not_negative():
    rng = np.random.default_rng(6)
    roots, theta = rng.normal(size=(8, 5)), np.maximum(rng.normal(size=(5, 40)), 0.0)
    wanted = 10 * roots @ theta + 6 * rng.normal(size=(8, 40))
    found = bounded_least_squares(100 * roots.T @ roots, 10 * roots.T @ wanted)
    assert (found == 0).any()
    np.testing.assert_allclose(found.T, [nnls(10 * roots, column)[0] for column in wanted.T], atol=1e-6)


def test_gains_are_drawn_towards_all_tasks_by_what_rows_can_tell():
    gains = np.array([[3.0, -1.0, 1.0, 1.0]])
    np.testing.assert_allclose(expected_gains(gains, np.full((1, 4), 1e-12)), gains, atol=1e-9)
    np.testing.assert_allclose(expected_gains(gains, np.full((1, 4), 100.0)), 1.0)
    uneven = expected_gains(gains, np.array([[0.01, 1.0, 0.01, 0.01]]))[0]
    assert uneven[0] > 2.9 and -1.0 < uneven[1] < 0.5
    np.testing.assert_array_equal(expected_gains(gains, np.zeros((1, 4))), gains)


def test_strengths_are_weighted_by_likelihood():
    gains = np.full((len(STRENGTHS), 1), -5.0)
    gains[[6, 8]] = 0.0
    np.testing.assert_allclose(mean_strengths(gains, np.ones(1), 100), STRENGTHS[7])


def test_own_weights_must_predict_rows_that_were_held_out(arrays):
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(2, 80, 3))
    stack = np.array([z @ z.T / 3 for z in Z])
    # Of one kernel alone each.
    targets = np.column_stack([z @ rng.normal(size=(3, 6)) for z in Z]) + 0.1 * rng.normal(size=(80, 12))
    operator, Y = operator_on(arrays, stack), arrays.array(targets)
    groups = [(np.arange(12), np.array([0.5, 0.5]), 1.0)]
    right = np.repeat(np.eye(2), 6, axis=1) * 10
    assert gain_of_own_weights(operator, Y, True, groups, right[::-1]) > 1.0
    assert gain_of_own_weights(operator, Y, True, groups, np.full((2, 12), 5.0)) > 1e-3
    assert gain_of_own_weights(operator, Y, True, groups, right) < 1e-3
    one = operator_on(arrays, stack[:1])
    groups = [(np.arange(12), np.ones(1), 1.0)]
    assert gain_of_own_weights(one, Y, True, groups, np.full((1, 12), 10.0)) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
def test_the_gain_of_own_weights_is_that_of_plain_machines(arrays, intercept):
    n, strength = 32, 1.5
    Z = np.random.default_rng(7).normal(size=(3, n, 4))
    stack = np.array([z @ z.T / 4 for z in Z])
    targets = np.column_stack([Z[t % 3][:, t % 4] for t in range(T)]) + 3.0
    shared = np.outer([0.2, 0.3, 0.5], np.linspace(1, 5, T))
    groups = [(np.arange(3), MIX, strength), (np.arange(3, T), MIX[::-1], strength)]
    found = gain_of_own_weights(operator_on(arrays, stack), arrays.array(targets), intercept, groups, shared)
    order = np.random.default_rng(0).permutation(n)
    held, rows = np.sort(order[: n // 4]), np.sort(order[n // 4 :])

    def squares(weights, t):
        gram = np.tensordot(weights, stack, 1)
        a, c = ridge(gram[np.ix_(rows, rows)], targets[rows, t], intercept)
        return np.mean((targets[held, t] - gram[np.ix_(held, rows)] @ a - c) ** 2)

    falls = []
    for members, mix, _ in groups:
        kept = mix_on(arrays, targets[rows][:, members], intercept, mix, stack[:, rows][:, :, rows])
        own = kept.own_weights(strength, np.arange(len(members)))
        np.testing.assert_allclose(own.sum(axis=0), 1.0)
        for weights, t in zip(own.T, members, strict=True):
            falls.append(squares(shared[:, t], t) - squares(weights * shared[:, t].sum(), t))
    assert found == pytest.approx(np.mean(falls), abs=0.02 * np.abs(falls).mean())


def test_gains_over_a_reference_are_differences_of_errors(arrays):
    # Of a single task, whose gains are not drawn towards those of others.
    mix, even = mix_on(arrays, Y[:, :1], True), mix_on(arrays, Y[:, :1], True, [1.0, 0.0, 0.0])
    (errors, gains), (base, none) = mix.errors(even), even.errors(even)
    one = STRENGTHS.tolist().index(1.0)
    np.testing.assert_allclose(gains, base[one] - errors, atol=1e-12)
    np.testing.assert_allclose(none[one], 0.0, atol=1e-12)


def test_groups_are_of_tasks_with_similar_mixes(arrays):
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(2, 120, 3))
    # Tasks of one kernel alone, of very different signal-to-noise ratios.
    signal = np.column_stack([Z[t % 2] @ rng.normal(size=3) for t in range(30)])
    targets = signal * np.logspace(-0.5, 1, 30) + rng.normal(size=signal.shape)
    found = choose_mixes(operator_on(arrays, np.array([z @ z.T / 3 for z in Z])), targets, has_intercept=True)
    assert len(found.mixes) == 4
    np.testing.assert_allclose(np.sort(found.mixes[2:, 0]), [0.0, 1.0], atol=0.1)


def test_tasks_choose_their_own_kernels(arrays):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(3, 160, 4))
    signal = np.column_stack([Z[t % 3] @ rng.normal(size=4) for t in range(30)])
    targets = signal / signal.std(axis=0) + 0.5 * rng.normal(size=signal.shape)
    found = choose_mixes(operator_on(arrays, np.array([z @ z.T / 4 for z in Z])), targets, has_intercept=True)
    assert (found.B.argmax(axis=0) == np.arange(30) % 3).all()
    assert found.errors.shape == (len(found.mixes), len(STRENGTHS), 30)
    assert (found.errors.min(axis=(0, 1)) < 0.5).all()
    np.testing.assert_allclose(found.mixes.sum(axis=1), 1.0)


def test_one_task_and_one_kernel_is_kernel_ridge():
    model = MKMTRLRegressorCV("precomputed", per_task=True, fit_intercept=False, normalize=None, tol=1e-8)
    model.fit(STACK[0][:, :, np.newaxis], Y[:, :1])
    weight = float(model.kernel_weights_[0, 0])
    plain = KernelRidge(alpha=1.0 / weight, kernel="precomputed").fit(STACK[0], Y[:, 0])
    np.testing.assert_allclose(model.predict(STACK[0][:, :, np.newaxis])[:, 0], plain.predict(STACK[0]), atol=1e-3)
    scores = model.cv_results_["mean_test_score"]
    assert model.best_score_ == scores.max()
    errors = [1 - np.square(Y[:, 0] - _left_out(STACK[0], C)).sum() / np.square(Y[:, 0]).sum() for C in (1e-3, 1.0)]
    tried = model.cv_results_["param_C"]
    np.testing.assert_allclose(
        scores[[tried.tolist().index(1e-3), int(np.argmin(abs(tried - 1.0)))]], errors, rtol=1e-6
    )


def _left_out(gram, C):
    """Values of the first target, each by a fit without its row."""
    values = np.empty(N)
    for i in range(N):
        kept = np.delete(np.arange(N), i)
        values[i] = C * gram[i, kept] @ ridge(C * gram[np.ix_(kept, kept)], Y[kept, 0], False)[0]
    return values


def test_a_device_finds_the_same(device):
    # With this seed no task is near the limit above which it takes weights of its own: rounding decides there.
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 4))
    targets = np.sin(X @ rng.normal(size=(4, 14))) + 0.3 * rng.normal(size=(60, 14))
    settings = {"per_task": True, "tol": 1e-7, "kernels": ["linear", "rbf"]}
    plain, tensors = (MKMTRLRegressorCV(device=d, **settings).fit(X, targets) for d in (None, device))
    np.testing.assert_allclose(tensors.kernel_weights_, plain.kernel_weights_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(tensors.predict(X), plain.predict(X), atol=1e-3)
    assert r2_score(targets, plain.predict(X)) > 0.3


def test_what_has_no_errors_of_each_task_is_refused():
    for change, reason in [
        ({"loss": "epsilon_insensitive"}, "the squared loss of regression"),
        ({"weights": True}, "rows of equal weight"),
        ({"missing": True}, "a label for every row and task"),
    ]:
        model = MKMTRLRegressorCV(per_task=True, loss=change.get("loss", "squared"))
        weight = np.linspace(1, 2, N) if "weights" in change else None
        given = np.where(np.eye(N, T) > 0, np.nan, Y) if "missing" in change else Y
        with pytest.raises(
            ValueError, match=f"^per_task=True chooses weights by held-out errors of each task, which needs {reason}$"
        ):
            model.fit(FEATURES[0], given, sample_weight=weight)


def test_a_grid_beside_it_is_refused():
    with pytest.raises(ValueError, match=r"^per_task=True chooses kernel weights for each task and cannot use grid$"):
        MKMTRLRegressorCV(per_task=True, grid={"C": [1.0]}).fit(FEATURES[0], Y)


def test_components_that_differ_by_chance_are_shrunk():
    rng = np.random.default_rng(2)
    S, theta = np.diag([50.0, 20.0, 10.0]), np.array([[1.0], [2.0], [3.0]])
    moments = S @ theta + np.sqrt(2 * np.diag(S))[:, np.newaxis] * rng.normal(size=(3, 150))
    own = np.linalg.solve(S, moments)
    assert (shrunk_components(S, moments).std(axis=1) < 0.4 * own.std(axis=1)).all()


def test_own_weights_that_predict_no_better_are_not_used(arrays):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(4, 60, 15))
    # Tasks of one mix, with much noise.
    targets = sum(z @ rng.normal(size=(15, 40)) for z in Z)
    targets = targets / targets.std(axis=0) + rng.normal(size=targets.shape)
    found = choose_mixes(operator_on(arrays, np.array([z @ z.T / 15 for z in Z])), targets, has_intercept=True)
    assert not found.by_own.any() and (found.choices[:, 0] > 0).mean() > 0.5


def test_weights_that_all_rows_have_change_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    Y = np.sin(X[:, :1]) + 0.3 * rng.normal(size=(40, 3))
    plain = MKMTRLRegressorCV(per_task=True).fit(X, Y)
    weighted = MKMTRLRegressorCV(per_task=True).fit(X, Y, sample_weight=np.full(40, 100.0))
    np.testing.assert_allclose(weighted.predict(X), plain.predict(X), rtol=1e-8, atol=1e-10)
