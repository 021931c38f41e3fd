"""The choice for each task where labels are missing: errors by conjugate gradients, and what follows from them."""

from __future__ import annotations

import numpy as np
import pytest

from kernelkin import MKMTRLRegressorCV
from kernelkin.paper.grams.operator import SharedOperator
from kernelkin.paper.mixes import choose_mixes
from kernelkin.paper.mixes.errors import FOLDS, CompleteTargets, MaskedTargets, drawn_together, solutions_at_strengths

N, T = 30, 5
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(3, N, 4))
STACK = np.array([Z @ Z.T / 4 for Z in FEATURES])
Y = np.column_stack([FEATURES[t % 3] @ RNG.normal(size=4) for t in range(T)]) + 0.5 * RNG.normal(size=(N, T)) + 2.0
MISSING = np.where(RNG.uniform(size=Y.shape) < 0.3, np.nan, Y)
MIX, STRENGTHS = np.array([0.5, 0.3, 0.2]), np.array([0.1, 1.0, 20.0])


def targets_on(arrays, intercept, given=MISSING, stack=STACK):
    operator, mask = SharedOperator(arrays, arrays.array(stack)), (~np.isnan(given)).astype(np.float32)
    return MaskedTargets(operator, np.nan_to_num(given), intercept, STRENGTHS, mask)


def ridge(gram, y, intercept):
    """The solution x of P (G + I/c) P x = P y and the intercept, for a gram with I/c added."""
    P = np.eye(len(y)) - (1 / len(y) if intercept else 0.0)
    return np.linalg.pinv(P @ gram @ P) @ y


@pytest.mark.parametrize("intercept", [False, True])
def test_one_krylov_space_solves_all_strengths(arrays, intercept):
    targets = targets_on(arrays, intercept)
    gram = np.tensordot(MIX, STACK, 1)
    x = arrays.numpy(solutions_at_strengths(targets.block(targets.decompose(MIX), slice(None)), STRENGTHS[::-1]))
    for t in range(T):
        rows = np.flatnonzero(~np.isnan(MISSING[:, t]))
        assert (np.delete(x[:, :, t], rows, axis=1) == 0).all()
        for i, c in enumerate(STRENGTHS[::-1]):
            inner = gram[np.ix_(rows, rows)]
            exact = ridge(inner + np.eye(len(rows)) / c, targets.Y[rows, t], intercept)
            np.testing.assert_allclose(inner @ x[i, rows, t], inner @ exact, atol=2e-2 * targets.Y[:, t].std())


@pytest.mark.parametrize("intercept", [False, True])
def test_losses_are_those_of_refits_without_each_fold(arrays, intercept):
    targets = targets_on(arrays, intercept)
    found, gram = targets.losses(targets.decompose(MIX)), np.tensordot(MIX, STACK, 1)
    spread = np.nanvar(MISSING, axis=0) if intercept else np.nanmean(MISSING**2, axis=0)
    np.testing.assert_allclose(targets.variance, spread, rtol=1e-6)
    folds = targets.folds
    for t in range(T):
        known, errors = ~np.isnan(MISSING[:, t]), np.zeros(len(STRENGTHS))
        assert np.ptp(np.bincount(folds[known, t], minlength=FOLDS)) <= 1
        for fold in range(FOLDS):
            kept, held = known & (folds[:, t] != fold), known & (folds[:, t] == fold)
            for i, c in enumerate(STRENGTHS):
                y = MISSING[kept, t] - (MISSING[kept, t].mean() if intercept else 0.0)
                x = ridge(gram[np.ix_(kept, kept)] + np.eye(kept.sum()) / c, y, intercept)
                level = (MISSING[kept, t] - gram[np.ix_(kept, kept)] @ x).mean() if intercept else 0.0
                errors[i] += np.square(MISSING[held, t] - gram[np.ix_(held, kept)] @ x - level).sum()
        np.testing.assert_allclose(found[:, t], errors / known.sum(), rtol=2e-2)


def test_gains_are_differences_of_losses_from_the_reference(arrays):
    targets = targets_on(arrays, True)
    plain, mix = targets.decompose(np.full(3, 1 / 3)), targets.decompose(MIX)
    found, base = targets.errors(mix, targets.reference(plain, 1.0)), targets.losses(plain)[1]
    np.testing.assert_allclose(found.loss, targets.losses(mix), rtol=1e-4)
    np.testing.assert_allclose(found.gain, base - found.loss, atol=1e-2)
    assert (found.error > 0).all()


def test_own_weights_are_those_of_the_rows_that_a_task_has(arrays):
    # One pattern: the same as the search without these rows.
    rows = np.arange(N) % 4 > 0
    given = np.where(rows[:, np.newaxis], Y, np.nan)
    masked = targets_on(arrays, True, given)
    few = CompleteTargets(
        SharedOperator(arrays, arrays.array(np.ascontiguousarray(STACK[:, rows][:, :, rows]))), Y[rows], True, STRENGTHS
    )
    every = np.arange(T)
    own = masked.own_weights(masked.decompose(MIX), 1.0, every)
    np.testing.assert_allclose(own, few.own_weights(few.decompose(MIX), 1.0, every), rtol=0.1, atol=0.02)


def test_information_differs_by_the_number_of_labels():
    S, theta = np.diag([50.0, 20.0]), np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 2.0, 3.0, 0.5]])
    both, classes = np.array([1e8 * S, 1e-8 * S]), np.array([0, 0, 1, 1])
    moments = np.column_stack([both[c] @ theta[:, t] for t, c in enumerate(classes)])
    found = drawn_together(both, moments, classes)
    np.testing.assert_allclose(found[:, :2], theta[:, :2], atol=1e-4)
    # Tasks of few labels follow the others.
    np.testing.assert_allclose(found[:, 2], found[:, 3], rtol=1e-2)


def test_tasks_choose_their_own_kernels(arrays):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(3, 160, 4))
    signal = np.column_stack([Z[t % 3] @ rng.normal(size=4) for t in range(30)])
    given = signal / signal.std(axis=0) + 0.5 * rng.normal(size=signal.shape)
    given[rng.uniform(size=given.shape) < np.linspace(0.1, 0.6, 30)] = np.nan
    operator = SharedOperator(arrays, arrays.array(np.array([z @ z.T / 4 for z in Z])))
    found = choose_mixes(operator, given, has_intercept=True)
    assert (found.B.argmax(axis=0) == np.arange(30) % 3).all()
    assert found.errors.shape == (len(found.mixes), len(found.strengths), 30)
    assert (found.errors.min(axis=(0, 1)) < 0.5 * found.variance).all()
    assert 3 <= len(found.strengths) < 15


def test_missing_labels_count_in_the_memory_and_nothing_of_size_t_n_squared_does():
    search, X = MKMTRLRegressorCV(["rbf"], per_task=True), np.zeros((500, 2))
    some = np.where(np.arange(500)[:, np.newaxis] % 7 == 0, np.nan, np.ones((500, 2000)))
    needs = [search.estimate_memory(X, Y) for Y in (np.ones((500, 2000)), some[:, :30], some)]
    assert 20 * some.size < needs[2] - needs[1] < 500 * some.size
    assert needs[2] > needs[0]


def test_a_task_with_two_labels_follows_the_others():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    targets = X @ rng.normal(size=(3, 6)) + 0.1 * rng.normal(size=(40, 6))
    targets[2:, 0] = np.nan
    model = MKMTRLRegressorCV(["linear", "rbf"], per_task=True).fit(X, targets)
    assert np.isfinite(model.predict(X)).all()
    mixes = model.kernel_weights_ / model.kernel_weights_.sum(axis=1, keepdims=True)
    assert mixes[0, 0] > 0.5
