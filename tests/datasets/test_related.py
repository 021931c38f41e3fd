"""Synthetic tasks: what is promised about weights, groups and functions holds."""

from __future__ import annotations

import numpy as np
import pytest

from kernelkin.datasets import make_related_tasks
from kernelkin.kernels.kernel import fit_kernels


def grams(bunch, task):
    """(K, n, n) between the task's training rows, (K, m, n) between its held-out rows and those."""
    kernels = fit_kernels(bunch.kernels, bunch.data)
    train, test = bunch.data[bunch.tasks == task], bunch.data_test[bunch.tasks_test == task]
    return np.stack([k(train) for k in kernels]), np.stack([k(test, train) for k in kernels])


def ridge(gram, y, penalty):
    return np.linalg.solve(gram + penalty * np.eye(len(y)), y)


def learn_weights(stack, y, penalty):
    """One task's kernel weights with sum one, from its training rows alone."""
    b = np.full(len(stack), 1 / len(stack))
    for _ in range(30):
        a = ridge(np.tensordot(b, stack, 1), y, penalty)
        norms = b * np.sqrt(np.einsum("i,kij,j->k", a, stack, a))
        b = norms / norms.sum()
    return b


def mean_errors(bunch, penalty, error):
    """Held-out error of ridge on the average kernel, on learned weights and on the true weights."""
    errors = []
    for task, truth in zip(bunch.task_names, bunch.kernel_weights, strict=True):
        stack, cross = grams(bunch, task)
        y, y_test = bunch.target[bunch.tasks == task], bunch.target_test[bunch.tasks_test == task]
        centred = y - y.mean()
        average = np.full(len(stack), 1 / len(stack))
        for b in (average, learn_weights(stack, centred, penalty), truth):
            f = np.tensordot(b, cross, 1) @ ridge(np.tensordot(b, stack, 1), centred, penalty) + y.mean()
            errors.append(error(f, y_test))
    return np.reshape(errors, (-1, 3)).mean(axis=0)


def test_long_form():
    for regression in [True, False]:
        bunch = make_related_tasks(5, 2, 4, n_samples=7, test_size=3, regression=regression, random_state=0)
        assert bunch.data.shape == (35, 8) and bunch.data_test.shape == (15, 8)
        assert bunch.target.shape == bunch.tasks.shape == (35,)
        assert bunch.target_test.shape == bunch.tasks_test.shape == (15,)
        assert np.unique(bunch.tasks).tolist() == ["task00", "task01", "task02", "task03", "task04"]
        assert np.unique(bunch.tasks_test, return_counts=True)[1].tolist() == [3] * 5
        assert len(bunch.feature_names) == 8
        assert len(bunch.kernels) == 4 and len({kernel.name for kernel in bunch.kernels}) == 4


def test_no_held_out_rows_by_default():
    assert make_related_tasks(random_state=0).data_test.shape == (0, 12)


def test_each_kernel_uses_its_own_block():
    bunch = make_related_tasks(random_state=0)
    rng = np.random.default_rng(0)
    for k, kernel in enumerate(fit_kernels(bunch.kernels, bunch.data)):
        block = slice(2 * k, 2 * k + 2)
        changed = bunch.data.copy()
        changed[:, np.delete(np.arange(12), block)] = rng.standard_normal((len(changed), 10))
        assert np.array_equal(kernel(changed), kernel(bunch.data))
        changed[:, block] *= 2
        assert not np.allclose(kernel(changed), kernel(bunch.data))


def test_groups_use_disjoint_kernels_and_tasks_of_one_group_the_same():
    bunch = make_related_tasks(random_state=1)
    used = bunch.kernel_weights > 0
    assert bunch.groups.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert np.allclose(bunch.kernel_weights.sum(axis=1), 1)
    same_group = bunch.groups[:, None] == bunch.groups
    assert np.array_equal(used.astype(int) @ used.T, np.where(same_group, 2, 0))


def test_groups_differ_when_kernels_are_scarce():
    bunch = make_related_tasks(5, 5, 5, n_relevant=3, random_state=0)
    used = bunch.kernel_weights > 0
    assert np.all(used.sum(axis=1) == 3)
    assert len(np.unique(used, axis=0)) == 5


def test_weights_are_similar_within_groups_and_differ_between_tasks():
    weights = make_related_tasks(300, 1, 4, n_samples=1, random_state=0).kernel_weights
    used = weights[:, weights.any(axis=0)]
    # Own weights are a tenth of the whole; a uniform share of two has a standard deviation of sqrt(1/12).
    assert used.std(axis=0) == pytest.approx(np.full(2, 0.1 / np.sqrt(12)), rel=0.15)


def test_targets_have_the_covariance_of_the_combined_kernel():
    """Whitened by the true Gram plus noise, the targets are standard normal; by that of another group, not."""
    bunch = make_related_tasks(60, 3, 6, n_samples=50, noise=0.2, random_state=0)
    kernels = fit_kernels(bunch.kernels, bunch.data)

    def whitened(weights):
        z = []
        for task, b in zip(bunch.task_names, weights, strict=True):
            rows = bunch.data[bunch.tasks == task]
            gram = sum(b[k] * kernels[k](rows) for k in range(6)) + 0.2**2 * np.eye(50)
            z.append(np.linalg.solve(np.linalg.cholesky(gram), bunch.target[bunch.tasks == task]))
        return np.ravel(z)

    three_sigma = 3 * np.sqrt(2 / 3000)  # the mean of 3000 squares of standard normal numbers
    assert np.mean(whitened(bunch.kernel_weights) ** 2) == pytest.approx(1, abs=three_sigma)
    assert np.mean(whitened(np.roll(bunch.kernel_weights, 20, axis=0)) ** 2) > 1 + 3 * three_sigma


def test_learned_weights_beat_the_average_kernel_in_regression():
    bunch = make_related_tasks(test_size=100, random_state=0)
    average, learned, true = mean_errors(bunch, 0.05, lambda f, y: np.mean((f - y) ** 2) / y.var())
    assert learned < 0.7 * average
    assert true < learned < 1.6 * true


def test_learned_weights_beat_the_average_kernel_in_classification():
    bunch = make_related_tasks(regression=False, test_size=100, random_state=0)
    average, learned, true = mean_errors(bunch, 0.5, lambda f, y: np.mean(np.sign(f) != y))
    assert learned < average - 0.01
    assert true < average - 0.04


def test_labels_are_balanced_and_flipped_at_the_given_rate():
    clean, noisy = (
        make_related_tasks(regression=False, noise=noise, n_samples=200, random_state=3) for noise in (0.0, 0.2)
    )
    assert np.array_equal(clean.data, noisy.data)
    assert np.array_equal(clean.target.reshape(12, 200).sum(axis=1), np.zeros(12))
    assert set(np.unique(noisy.target)) == {-1, 1}
    assert np.mean(clean.target != noisy.target) == pytest.approx(0.2, abs=0.025)  # three standard deviations


def test_seed_repeats_the_draw():
    first, again, other = (make_related_tasks(random_state=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.data, again.data) and np.array_equal(first.target, again.target)
    assert not np.array_equal(first.target, other.target)


def test_impossible_arguments_are_refused():
    for arguments, message in [
        ({"n_groups": 7}, "n_kernels=6"),
        ({"n_relevant": 7}, "n_relevant=7 is more than"),
        ({"n_samples": 0}, "must be positive"),
        ({"noise": 0.5, "regression": False}, "below 0.5"),
    ]:
        with pytest.raises(ValueError, match=message):
            make_related_tasks(**arguments)
