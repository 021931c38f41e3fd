"""Problems in any units: certificates against a cone solver at scale one, large offsets, and useless strengths."""

import dataclasses
from functools import cache

import numpy as np
import pytest

from conic import conic_lp, conic_optimum
from kernelkin.paper.learners import SVR, Machine, Ridge
from kernelkin.paper.penalties import LpPenalty, RelationPenalty, SharedLpPenalty
from kernelkin.paper.problems import MachineList
from kernelkin.paper.problems.machines import standard_units
from kernelkin.paper.problems.panel import MachinePanel
from kernelkin.paper.solvers import Status, solve
from tasks import LOSSES, in_turn, make_problem, random_problem

T, K, C, MU = 3, 3, 2.0, 0.5
PENALTIES = {"relation": RelationPenalty(T), "lp": LpPenalty(1.5), "shared": SharedLpPenalty()}
# Factors of targets and costs; the strength follows, and must itself be a number.
SCALES = {
    "hinge": [(1.0, 1e-100), (1.0, 1e-30), (1.0, 1e100)],
    "squared": [(1e-140, 1.0), (1e-84, 1.0), (1e140, 1.0), (1.0, 1e100), (1e-140, 1e50), (1e140, 1e-120)],
    "epsilon_insensitive": [(1e-140, 1.0), (1.0, 1e-90), (1e140, 1e140)],
}
CASES = [(loss, *scale) for loss, scales in SCALES.items() for scale in scales]


def seeded(seed, loss):
    return random_problem(seed, loss, T, K, n=10)


@cache
def reference(seed, loss, name):
    """The optimum at scale one."""
    if name == "relation":
        return conic_optimum(*seeded(seed, loss), C, MU, loss)[0]
    p, shared = (1.5, False) if name == "lp" else (2.0, True)
    return conic_lp(*seeded(seed, loss), C, MU, loss, p, shared)


def scaled_problem(seed, loss, name, s, c):
    """The same problem with targets times s and costs times c, and the factor of its objective."""
    stacks, ys = seeded(seed, loss)
    # With targets y and costs C, dual variables have the size of alpha.
    alpha = s * c if loss == "squared" else c
    strength = MU * (alpha / s) * alpha * alpha
    problem = make_problem(stacks, [s * y for y in ys], loss, PENALTIES[name], c * C, strength)
    learner = SVR(0.1 * s) if loss == "epsilon_insensitive" else LOSSES[loss]
    return dataclasses.replace(problem, learner=learner), s * alpha


@pytest.mark.parametrize(
    ("case", "name"),
    in_turn(CASES, PENALTIES),
    ids=[f"{loss}, y {s:g}, C {c:g}, {name}" for (loss, s, c), name in in_turn(CASES, PENALTIES)],
)
def test_certificates_hold_at_any_scale(case, name):
    loss, s, c = case
    problem, factor = scaled_problem(0, loss, name, s, c)
    standard, units = problem.in_standard_units()
    solution = solve(standard, units=units, tol=1e-5)
    optimum = reference(0, loss, name)
    assert solution.status is Status.CONVERGED
    assert solution.relative_gap <= 1e-5
    np.testing.assert_allclose(solution.primal / factor, optimum, rtol=2e-5)
    assert solution.bound / factor <= optimum * (1 + 1e-6)
    assert solution.primal / factor >= optimum * (1 - 1e-6)
    # And it is a solution of the problem as the user has posed it.
    weights = units.weights(solution.B)
    assert 1e-6 < weights.max() < 1e6
    for dual, machine in zip(solution.duals, problem.machines, strict=True):
        assert np.isfinite(dual.a).all() and np.abs(dual.a).max() > 0
        if loss != "squared":
            assert (np.abs(dual.a) <= machine.C).all()


@pytest.mark.parametrize(("name", "s"), in_turn(PENALTIES, [1e-140, 1e-84, 1e100]))
@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive"])
def test_bounds_hold_in_the_units_of_the_user(loss, name, s):
    """A problem that is evaluated as it is, at the optimum of scale one: its two bounds are not false."""
    standard, units = scaled_problem(0, loss, name, s, 1.0)[0].in_standard_units()
    best = solve(standard, units=units, tol=1e-5)
    problem, factor = scaled_problem(0, loss, name, s, 1.0)
    optimum = reference(0, loss, name)
    for share in (0.3, 1.0, 3.0):
        evaluation = problem.evaluate(share * best.B, tol=1e-6)
        assert evaluation.bound / factor <= optimum * (1 + 1e-6)
        assert evaluation.primal / factor >= optimum * (1 - 1e-6)


@pytest.mark.parametrize(("name", "offset"), in_turn(PENALTIES, [1e9, 1e12]))
@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive"])
def test_large_offsets_of_the_targets_lose_nothing(loss, name, offset):
    stacks, ys = seeded(1, loss)
    # Targets as the computer holds them: what is left of the noise beside the offset is exact.
    offsets = offset * np.array([1.0, -2.0, 0.5])
    moved = [y + o for y, o in zip(ys, offsets, strict=True)]
    centred = [y - o for y, o in zip(moved, offsets, strict=True)]
    standard, units = make_problem(stacks, moved, loss, PENALTIES[name], C, MU).in_standard_units()
    solution = solve(standard, units=units, tol=1e-6)
    if name == "relation":
        optimum = conic_optimum(stacks, centred, C, MU, loss)[0]
    else:
        optimum = conic_lp(stacks, centred, C, MU, loss, 1.5 if name == "lp" else 2.0, name == "shared")
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.primal, optimum, rtol=3e-6)
    for dual, o in zip(solution.duals, offsets, strict=True):
        assert abs(dual.intercept[0, 0] - o) < 10


def test_what_is_shown_and_recorded_is_in_the_units_of_the_user(capsys):
    problem, factor = scaled_problem(0, "squared", "relation", 1e-50, 1.0)
    standard, units = problem.in_standard_units()
    seen = []
    solution = solve(standard, units=units, verbose=1, callback=seen.append)
    plain = solve(scaled_problem(0, "squared", "relation", 1.0, 1.0)[0])
    np.testing.assert_allclose(solution.history["primal"] / factor, plain.history["primal"], rtol=1e-6)
    np.testing.assert_allclose([iterate.objective for iterate in seen], solution.history["objective"], rtol=0)
    np.testing.assert_array_equal(seen[-1].B, solution.B)
    assert float(capsys.readouterr().out.split()[3]) == pytest.approx(solution.history["primal"][0], rel=1e-5)


def test_rescaling_by_powers_of_two_is_exact():
    """A problem that is of order one already comes back bit for bit."""
    problem, _ = scaled_problem(0, "squared", "relation", 1.0, 1.0)
    for s, c in ((2.0**-100, 2.0**30), (2.0**70, 2.0**-10)):
        other, _ = scaled_problem(0, "squared", "relation", s, c)
        one, two = (p.in_standard_units()[0] for p in (problem, other))
        assert one.mu == two.mu
        for a, b in zip(one.machines, two.machines, strict=True):
            np.testing.assert_array_equal(a.y, b.y)
            np.testing.assert_array_equal(a.C, b.C)


@pytest.mark.parametrize(("mu", "strength"), [(5e-324, "none"), (1e-40, "none"), (1e200, "infinite strength")])
def test_strengths_without_meaning_are_refused_by_name(mu, strength):
    problem, _ = scaled_problem(0, "squared", "relation", 1.0, 1.0)
    message = (
        rf"mu={mu!r} cannot be distinguished from {strength} for these data \(C about 2, spread of the targets about"
    )
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        dataclasses.replace(problem, mu=mu).in_standard_units()


def test_objectives_outside_the_range_of_doubles_are_refused_by_name():
    problem, _ = scaled_problem(0, "squared", "relation", 1.0, 1.0)
    machines = MachineList(dataclasses.replace(m, y=1e140 * m.y, C=1e140 * m.C) for m in problem.machines)
    with pytest.raises(ValueError, match=r"C is about 2e\+140 and the spread of the targets about .* rescale y, C or"):
        dataclasses.replace(problem, machines=machines).in_standard_units()


def test_rows_without_cost_and_targets_without_spread_do_not_count():
    problem, _ = scaled_problem(0, "squared", "relation", 1.0, 1.0)
    first = problem.machines[0]
    y, cost = first.y.copy(), first.C.copy()
    y[0], cost[0] = 1e200, 0.0
    units = standard_units(MachineList([dataclasses.replace(first, y=y, C=cost)]), LOSSES["squared"])[3]
    assert abs(units.target) <= 2 and units.dual == units.target + 1
    constant = MachineList([dataclasses.replace(first, y=np.full_like(first.y, 7.0))])
    scaled, _, _, units = standard_units(constant, LOSSES["squared"])
    assert units.target == 0
    np.testing.assert_array_equal(units.offsets[0], [[7.0]])
    np.testing.assert_array_equal(scaled[0].y, 0.0)


def test_targets_of_machines_without_intercept_are_not_moved():
    stacks, ys = seeded(0, "squared")
    problem = make_problem(stacks, [y + 100 for y in ys], "squared", RelationPenalty(T), C, MU, fit_intercept=False)
    standard, units = problem.in_standard_units()
    for machine, other in zip(problem.machines, standard.machines, strict=True):
        np.testing.assert_array_equal(np.ldexp(other.y, units.target), machine.y)


@pytest.mark.parametrize("form", ["machines of tasks", "complete panel", "panel with missing labels"])
def test_targets_far_from_zero_are_centred_to_the_last_digit(form):
    """The mean of twenty thousand such numbers is off by more than rounding, and so is what one pass leaves."""
    y = 1e9 + np.random.default_rng(0).uniform(size=(20_000, 1))
    machine = Machine(y, np.ones(y.shape), np.zeros(len(y), dtype=np.intp), 1)
    machines = MachineList([machine] * 2)
    if form != "machines of tasks":
        rows = np.arange(len(y) + (form != "complete panel"))
        machines = MachinePanel.of(machines, [rows[: len(y)]] * 2, len(rows))
    scaled, _, _, units = standard_units(machines, Ridge())
    centred = scaled[0].y if isinstance(scaled, MachineList) else scaled.task(scaled.y, 0)
    # No number near 1e9 is closer to the mean than half a unit in the last place.
    assert abs(float(centred.mean())) * 2.0**units.target <= 0.6 * np.spacing(1e9)
