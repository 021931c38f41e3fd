"""Means, standard errors, and which models are as good as the best."""

import numpy as np

from experiments.summary import comparable, differ


def _runs(values):
    return dict(enumerate(values))


def test_comparable_models_are_those_within_the_noise_of_the_best():
    rng = np.random.default_rng(0)
    best = rng.normal(size=10)
    scores = {
        "best": _runs(best),
        "noisy": _runs(best - 0.1 + rng.normal(size=10)),
        "worse": _runs(best - 1 + 0.01 * rng.normal(size=10)),
    }
    assert comparable(scores, larger_is_better=True) == {"best", "noisy"}
    lower = {name: _runs(-np.array(list(runs.values()))) for name, runs in scores.items()}
    assert comparable(lower, larger_is_better=False) == {"best", "noisy"}


def test_runs_are_compared_in_pairs():
    # Run to run both vary far more than they differ from each other.
    rng = np.random.default_rng(1)
    first = rng.normal(size=8)
    second = first - 0.05 + 0.01 * rng.normal(size=8)
    assert differ(_runs(first), _runs(second))
    assert not differ(_runs(first), _runs(rng.permutation(second)))


def test_only_runs_that_both_have_are_compared():
    first = {0: 1.0, 1: 2.0, 2: 3.0}
    second = {1: 2.0, 2: 3.0, 7: 100.0}
    assert not differ(first, second)


def test_single_runs_are_comparable_only_if_equal():
    assert comparable({"a": {0: 1.0}, "b": {0: 0.5}, "c": {0: 1.0}}, larger_is_better=True) == {"a", "c"}
