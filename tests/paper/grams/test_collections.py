"""The Grams of all tasks: shared ones are the same as separate copies, whatever rows each task has."""

import numpy as np
import pytest

from kernelkin.paper.grams.stack import GramStack, SharedGrams, TaskGrams, runs

K, N, T = 3, 14, 4
FACTORS = np.random.default_rng(0).normal(size=(K, N, N))
STACK = FACTORS @ FACTORS.transpose(0, 2, 1)
ROWS = [np.arange(N), np.arange(0, N, 2), np.array([13, 2, 5]), np.arange(N)]
OUTPUTS = [1, 3, 1, 2]


def separate():
    return TaskGrams([GramStack(np.ascontiguousarray(STACK[:, rows][:, :, rows])) for rows in ROWS])


def shared():
    return SharedGrams(GramStack(STACK), ROWS)


@pytest.fixture
def machines():
    return range(1, 3)


@pytest.mark.parametrize("make", [separate, shared])
def test_combined_grams_are_weighted_sums(make, machines):
    B = np.random.default_rng(1).uniform(size=(K, T))
    combined = make().combine(B, machines)
    assert len(combined) == len(machines)
    for m, gram in zip(machines, combined, strict=True):
        np.testing.assert_allclose(gram, np.tensordot(B[:, m], STACK, 1)[np.ix_(ROWS[m], ROWS[m])], rtol=1e-12)


@pytest.mark.parametrize("make", [separate, shared])
def test_quadratic_forms(make, machines):
    rng = np.random.default_rng(2)
    a = [rng.normal(size=(len(rows), outputs)) for rows, outputs in zip(ROWS, OUTPUTS, strict=True)]
    Q = make().quadratic_forms([a[m] for m in machines], machines)
    expected = np.zeros((K, T))
    for m in machines:
        for k in range(K):
            expected[k, m] = 0.5 * np.trace(a[m].T @ STACK[k][np.ix_(ROWS[m], ROWS[m])] @ a[m])
    np.testing.assert_allclose(Q, expected, rtol=1e-11)


@pytest.mark.parametrize("make", [separate, shared])
def test_images_are_products_with_the_grams(make, machines):
    rng = np.random.default_rng(3)
    a = [rng.normal(size=(len(rows), outputs)) for rows, outputs in zip(ROWS, OUTPUTS, strict=True)]
    Q, images = make().images([a[m] for m in machines], machines)
    np.testing.assert_allclose(Q, make().quadratic_forms([a[m] for m in machines], machines), rtol=1e-11)
    for m, image in zip(machines, images, strict=True):
        expected = np.einsum("kij,jm->kim", STACK[:, ROWS[m]][:, :, ROWS[m]], a[m])
        np.testing.assert_allclose(image, expected, atol=1e-11 * np.abs(expected).max())


def test_batches_cover_all_machines_in_order(monkeypatch):
    for limit in (1, 8 * N * N, 3 * 8 * N * N, 1 << 28):
        monkeypatch.setattr("kernelkin.paper.grams.stack.BATCH_BYTES", limit)
        for grams in (separate(), shared()):
            assert [m for batch in runs(grams.gram_bytes) for m in batch] == list(range(T))


def test_batches_stay_below_the_limit(monkeypatch):
    monkeypatch.setattr("kernelkin.paper.grams.stack.BATCH_BYTES", 10)
    assert list(runs([4, 4, 4, 20, 1, 9, 1])) == [range(2), range(2, 3), range(3, 4), range(4, 6), range(6, 7)]
