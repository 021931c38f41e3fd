import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelkin import MKMTRLRegressor, OLSRegressor, kernel_likeness, task_relations
from kernelkin.datasets import make_related_tasks
from kernelkin.relations.kernel_scores import TaskProcess
from kernelkin.relations.likeness import kernel_root


def related(n_groups, seed, **options):
    options = {"n_samples": 40, "n_features_per_kernel": 1, "noise": 0.3, "similarity": 1.0, **options}
    data = make_related_tasks(6, n_groups, 4, random_state=seed, **options)
    model = MKMTRLRegressor(data.kernels, C=10.0, min_rank=2.0).fit(data.data, data.target, tasks=data.tasks)
    return data, model


def test_tasks_of_one_mix_have_no_structure_though_their_functions_differ():
    found = []
    for seed in range(10):
        data, model = related(1, seed)
        options = {"n_permutations": 99, "random_state": 0}
        found.append(task_relations(model, data.data, data.target, data.tasks, by="kernels", **options))
    assert sum(relations.structured for relations in found) <= 1


def test_groups_that_use_different_kernels_are_found():
    right = []
    for seed in range(5):
        data, model = related(2, seed, n_samples=60)
        relations = task_relations(
            model, data.data, data.target, data.tasks, by="kernels", n_permutations=99, random_state=0
        )
        right.append((relations.groups == data.groups).all())
    assert sum(right) == 5
    assert relations.likeness[0, 5] < 0.7 and relations.intervals[0, 5, 1] < 1
    assert "one mix of kernels" in str(relations)


def test_scores_have_no_information_along_variance_and_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 3))
    grams = np.stack([np.outer(x - x.mean(), x - x.mean()) for x in X.T])
    mix, y = np.array([0.5, 0.3, 0.2]), X[:, :1] + rng.normal(size=(25, 1))
    found = TaskProcess.fit(grams, mix, y - y.mean()).scores(y - y.mean(), mix, np.zeros((24, 1, 0)))
    assert_allclose(found.information @ mix, 0, atol=1e-8)
    assert_allclose(found.scores @ mix, 0, atol=1e-8)


def test_scores_of_draws_have_the_covariance_that_is_claimed():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    grams = np.stack([np.exp(-((x[:, None] - x) ** 2)) for x in X.T])
    grams -= grams.mean(axis=1, keepdims=True)
    grams -= grams.mean(axis=2, keepdims=True)
    mix, y = np.full(3, 1 / 3), np.sin(2 * X[:, :1])
    process = TaskProcess.fit(grams, mix, y - y.mean())
    found = process.scores(y - y.mean(), mix, rng.normal(size=(29, 1, 40_000)))
    assert_allclose(found.draws.mean(axis=0), 0, atol=0.1)
    assert_allclose(np.cov(found.draws.T), found.information, atol=0.05 * np.abs(found.information).max())


def test_kernel_likeness_is_the_alignment_of_combined_kernels():
    data, model = related(2, 0)
    found = kernel_likeness(model, X=data.data)
    X = data.data
    grams = np.stack([kernel(X) for kernel in model.kernels_])
    grams -= grams.mean(axis=1, keepdims=True)
    grams -= grams.mean(axis=2, keepdims=True)
    grams /= np.sqrt(np.square(grams).sum(axis=(1, 2)))[:, None, None]
    combined = np.tensordot(model.kernel_weights_, grams, axes=1).reshape(6, -1)
    combined /= np.linalg.norm(combined, axis=1, keepdims=True)
    assert_allclose(found, combined @ combined.T, atol=1e-6)


def test_kernel_likeness_counts_equal_kernels_as_one_and_weights_by_their_shares():
    gram = np.diag([1.0, 2.0, 3.0])
    root = kernel_root(np.stack([gram, 5 * gram, np.ones((3, 3)) - np.eye(3)]))
    first, second, other = root.T
    assert first @ second == pytest.approx(1)
    assert first @ other == pytest.approx(0, abs=1e-12)


def test_likeness_of_one_task_is_its_row():
    _, model = related(2, 0)
    assert_allclose(kernel_likeness(model, task="task02"), kernel_likeness(model)[2], atol=1e-12)


def test_kernel_likeness_refuses_what_it_cannot_compare():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(30, 2)), np.repeat(["a", "b"], 15)
    linear = OLSRegressor().fit(X, X[:, 0], tasks=tasks)
    with pytest.raises(ValueError, match="OLSRegressor has no kernel weights to compare"):
        kernel_likeness(linear, X=X)
    model = MKMTRLRegressor().fit(X, X[:, 0], tasks=tasks)
    with pytest.raises(ValueError, match="task 'c' was not in training"):
        kernel_likeness(model, task="c")
