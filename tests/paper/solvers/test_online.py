"""The online solver against Algorithm 2 as printed, in plain NumPy."""

import numpy as np
import pytest

from kernelkin.paper.penalties import RelationPenalty
from kernelkin.paper.solvers.online import Online, OnlineRun, OnlineState, Rounds


def relation(B, shrinkage):
    """The minimising Omega (T, T) of tr(inv(Omega) B'B): with no shrinkage (B'B)^(1/2), scaled to trace 1."""
    if shrinkage:
        return RelationPenalty(B.shape[1], shrinkage=shrinkage).relation(B).matrix()
    _, s, Vt = np.linalg.svd(B, full_matrices=False)
    root = (Vt.T * s) @ Vt
    return root / np.trace(root)


def algorithm_2(tasks, labels, z, T, mu, shrinkage=0.0, refresh=1, B=None):
    """B (K, T) after each round, and the rounds that were mistakes."""
    B = np.zeros((z.shape[1], T)) if B is None else B.copy()
    Omega = relation(B, shrinkage) if B.any() else np.eye(T) / T
    states, mistakes = [], []
    for r, (t, label, x) in enumerate(zip(tasks, labels, z, strict=True)):
        # What rounding has left of an exact zero has no sign.
        if label != np.sign(np.round(B[:, t] @ x, 12)):
            B = B.copy()
            for other in range(T):
                B[:, other] += label / mu * Omega[t, other] * x
            mistakes.append(r)
            if len(mistakes) % refresh == 0:
                Omega = relation(B, shrinkage)
        states.append(B)
    return np.array(states), mistakes


def random_rounds(seed, T, K, n):
    rng = np.random.default_rng(seed)
    return rng.integers(T, size=n), rng.choice([-1.0, 1.0], size=n), rng.normal(size=(n, K)) + 0.3


def started(B):
    """A state whose weights are B (K, T)."""
    state = OnlineState(*B.shape)
    state.held = B.T.copy()
    return state


def learn_one_by_one(solver, state, tasks, signs, z):
    for r in range(len(tasks)):
        solver.step(state, Rounds(tasks[r : r + 1], signs[r : r + 1], z[r : r + 1]))
        yield state.weights()


@pytest.mark.parametrize(
    ("T", "K", "shrinkage"), [(6, 4, 0.0), (3, 5, 0.1), (30, 5, 0.1), (30, 5, 1.0), (8, 1, 0.0), (1, 3, 0.1)]
)
def test_every_round_equals_algorithm_2(T, K, shrinkage):
    tasks, labels, z = random_rounds(T + K, T, K, 150)
    reference, mistakes = algorithm_2(tasks, labels, z, T, 0.7, shrinkage)
    solver = Online(mu=0.7, shrinkage=shrinkage, refresh=1, project=False)
    state = OnlineState(K, T)
    for B, expected in zip(learn_one_by_one(solver, state, tasks, labels, z), reference, strict=True):
        assert np.abs(B - expected).max() <= 1e-10 * max(1.0, np.abs(expected).max())
    assert len(mistakes) > 10


@pytest.mark.parametrize("T, K", [(6, 4), (4, 7), (30, 5)])
def test_algorithm_2_without_shrinkage_from_weights_of_full_rank(T, K):
    """From zero, Algorithm 2 stays with its first task; from elsewhere it moves all of them."""
    tasks, labels, z = random_rounds(5, T, K, 100)
    B = np.random.default_rng(1).uniform(1, 3, size=(K, T))
    reference, mistakes = algorithm_2(tasks, labels, z, T, 5.0, B=B)
    solver, state = Online(mu=5.0, shrinkage=0.0, refresh=1, project=False), started(B)
    solver.refresh_relation(state)
    for got, expected in zip(learn_one_by_one(solver, state, tasks, labels, z), reference, strict=True):
        assert np.abs(got - expected).max() <= 1e-10 * np.abs(expected).max()
    assert len(mistakes) > 10 and np.all(np.abs(reference[-1] - B).max(axis=0) > 1e-3)


def test_algorithm_2_as_printed_stays_with_its_first_task():
    tasks, labels, z = random_rounds(0, 5, 3, 300)
    solver, state = Online(shrinkage=0.0, refresh=1, project=False), OnlineState(3, 5)
    solver.step(state, Rounds(tasks, labels, z))
    assert set(np.flatnonzero(state.weights().any(axis=0))) == {tasks[0]}
    solver, state = Online(shrinkage=0.1, refresh=1, project=False), OnlineState(3, 5)
    solver.step(state, Rounds(tasks, labels, z))
    assert state.weights().any(axis=0).all()


@pytest.mark.parametrize("refresh", [2, 7, 40])
def test_a_held_relation_equals_algorithm_2_with_fewer_refreshes(refresh):
    tasks, labels, z = random_rounds(2, 9, 4, 200)
    reference, _ = algorithm_2(tasks, labels, z, 9, 1.3, 0.1, refresh)
    state = OnlineState(4, 9)
    solver = Online(mu=1.3, refresh=refresh, project=False)
    for B, expected in zip(learn_one_by_one(solver, state, tasks, labels, z), reference, strict=True):
        assert np.abs(B - expected).max() <= 1e-10 * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(state.weights(average=True), reference.mean(axis=0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("update", ["perceptron", "hinge"])
def test_projection_and_average_against_a_plain_loop(update):
    """The lazy scheme, written out: a column is projected when drawn, all are when Omega is refreshed."""
    T, K, n, refresh = 5, 3, 300, 11
    tasks, signs, z = random_rounds(3, T, K, n)
    signs *= np.random.default_rng(4).uniform(0.5, 2, size=n)
    B, Omega, total, mistakes = np.zeros((K, T)), np.eye(T) / T, np.zeros((K, T)), 0
    for t, sign, x in zip(tasks, signs, z, strict=True):
        if mistakes == refresh:
            B = np.maximum(B, 0.0)
            Omega, mistakes = relation(B, 0.2), 0
        B[:, t] = np.maximum(B[:, t], 0.0)
        score = np.sign(sign) * np.round(B[:, t] @ x, 12)
        if score <= 0 or (update == "hinge" and score < 1):
            B += sign / 0.9 * np.outer(x, Omega[t])
            mistakes += 1
        total += B
    solver = Online(mu=0.9, update=update, shrinkage=0.2, refresh=refresh)
    state = OnlineState(K, T)
    solver.step(state, Rounds(tasks, signs, z))
    np.testing.assert_allclose(state.weights(), B, rtol=0, atol=1e-10)
    np.testing.assert_allclose(state.weights(average=True), total / n, rtol=0, atol=1e-10)


def test_blocks_do_not_matter():
    tasks, signs, z = random_rounds(6, 7, 4, 500)
    states = []
    for cuts in ([], [1, 2, 250], list(range(17, 500, 17))):
        state = OnlineState(4, 7)
        for part in np.split(np.arange(500), cuts):
            Online(refresh=13).step(state, Rounds(tasks[part], signs[part], z[part]))
        states.append(state)
    for state in states[1:]:
        assert np.array_equal(state.weights(), states[0].weights())
        assert np.array_equal(state.weights(average=True), states[0].weights(average=True))
        assert np.array_equal(state.counts, states[0].counts)


@pytest.mark.parametrize(
    ("T", "K", "shrinkage", "min_rank"), [(6, 4, 0.0, 1.0), (4, 7, 0.3, 1.0), (6, 4, 0.1, 2.5), (4, 7, 0.0, 4.0)]
)
def test_the_relation_of_a_refresh_is_that_of_the_penalty(T, K, shrinkage, min_rank):
    B = np.random.default_rng(0).uniform(size=(K, T))
    B[:, 1] = 0.0
    solver, state = Online(shrinkage=shrinkage, min_rank=min_rank), started(B)
    solver.refresh_relation(state)
    expected = RelationPenalty(T, shrinkage=shrinkage, min_rank=min_rank).relation(B).matrix()
    np.testing.assert_allclose(state.rest * np.eye(T) + B.T @ state.P @ B, expected, atol=1e-12)
    np.testing.assert_allclose(solver.relation(B).matrix(), expected, atol=1e-12)
    np.testing.assert_allclose(solver.relation(np.zeros((K, T))).matrix(), np.eye(T) / T)


def test_history_has_the_running_mistake_rate(capsys):
    tasks, signs, z = random_rounds(8, 3, 3, 250)
    run = OnlineRun(Online(), 3, 3, 250, verbose=1)
    run.step(Rounds(tasks, signs, z))
    history = run.history
    assert history["round"][-1] == 250 and len(history["round"]) == 125
    assert history["mistake_rate"][-1] == run.state.mistakes / 250
    np.testing.assert_allclose(
        np.cumsum(history["recent_mistake_rate"] * 2) / history["round"], history["mistake_rate"]
    )
    assert "250/250 rounds" in capsys.readouterr().err


def test_pairs_are_centred_by_the_mean_so_far():
    rng = np.random.default_rng(0)
    tasks, z = rng.integers(3, size=50), rng.normal(size=(50, 2)) + 5
    centred = z.copy()
    run = OnlineRun(Online(), 2, 3, 50, center=True)
    for part in (slice(0, 1), slice(1, 20), slice(20, 50)):
        run.step(Rounds(tasks[part], np.ones(50)[part], centred[part]))
    for r in range(50):
        own = z[: r + 1][tasks[: r + 1] == tasks[r]]
        mean = (own.sum(axis=0) + 10 * z[: r + 1].mean(axis=0)) / (len(own) + 10)
        np.testing.assert_allclose(centred[r], z[r] - mean, atol=1e-12)
