"""The compiled steps: what one burst reports is what it did."""

import numpy as np
import pytest

from kernelkin.learners import SVM, SVR
from kernelkin.learners.steps import State, burst, kinks
from learners.problems import box, dual_value, random_machine


def start(learner, gram, machine, a):
    """The state of the solver at a, for a machine with one output whose groups lie side by side."""
    lo, hi = (np.ascontiguousarray(side[:, 0]) for side in box(learner, machine))
    epsilon = learner.epsilon if isinstance(learner, SVR) else 0.0
    up, down = np.array([kinks(*row, epsilon) for row in zip(a, lo, hi, strict=True)]).T.copy()
    starts = np.array([0, len(a)][: machine.n_groups + 1])
    p = machine.y[:, 0].copy()
    return State(gram, np.diag(gram).copy(), p, lo, hi, epsilon, starts, a, p - gram @ a, up, down)


@pytest.mark.parametrize("learner", [SVM(), SVR(0.0), SVR(0.3)], ids=repr)
@pytest.mark.parametrize("n_groups", [0, 1])
def test_every_step_gains_what_it_says(learner, n_groups):
    """Also from a random point, where steps of the epsilon-insensitive loss run into the kink at zero."""
    gram, machine = random_machine(learner, seed=1, n_groups=n_groups)
    lo, hi = (side[:, 0] for side in box(learner, machine))
    state = start(learner, gram, machine, np.random.default_rng(1).uniform(lo, hi))
    total = state.a.sum()
    for _ in range(60):
        before = dual_value(learner, gram, machine, state.a[:, None])
        steps, gain, _ = burst(state, 0.0, 0.0, 1)
        after = dual_value(learner, gram, machine, state.a[:, None])
        assert steps == 1 and gain > 0
        np.testing.assert_allclose(after - before, gain, rtol=1e-6, atol=1e-11 * abs(after))
        assert np.all(state.a >= lo) and np.all(state.a <= hi)
        np.testing.assert_allclose(state.slope, state.p - gram @ state.a, atol=1e-11)
        if n_groups:
            np.testing.assert_allclose(state.a.sum(), total, atol=1e-12)


@pytest.mark.parametrize("n_groups", [0, 1])
def test_a_burst_ends_at_its_goal(n_groups):
    gram, machine = random_machine(SVM(), seed=2, n_groups=n_groups)
    state = start(SVM(), gram, machine, np.zeros(len(gram)))
    first = 1.0 if n_groups == 0 else 2.0  # at a = 0 the derivatives are the labels
    steps, _, violation = burst(state, 1e-2, 0.0, 10_000)
    assert 0 < steps < 10_000 and violation <= 1e-2 * first
    assert burst(state, 0.0, violation, 10_000)[0] == 0
