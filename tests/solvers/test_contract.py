"""What every solver promises, whichever it is: an honest Solution, a full history, and a callback that sees it all."""

import itertools
from functools import cache

import numpy as np
import pytest

from kernelkin.penalties import RelationPenalty, effective_rank
from kernelkin.solvers import SOLVERS, Alternating, Joint, Status
from tasks import LOSSES, make_problem, random_problem, solve

T, K = 4, 4
CASES = {
    "joint": Joint(),
    "alternating": Alternating(),
    "alternating, fista": Alternating("fista"),
    "alternating, closed form": Alternating("closed_form"),
}
FIELDS = {"iteration", "objective", "primal", "bound", "relative_gap", "effective_rank", "seconds"}


def test_every_registered_solver_is_tested():
    assert {type(solver) for solver in CASES.values()} == set(SOLVERS.values())
    assert all(cls.name == name for name, cls in SOLVERS.items())


@pytest.fixture(params=CASES)
def solver(request):
    return CASES[request.param]


def problem(loss="squared", shrinkage=0.1):
    penalty = RelationPenalty(T, shrinkage=shrinkage)
    return make_problem(*random_problem(0, loss, T, K), loss, penalty, C=2.0, mu=0.5)


@cache
def tight_solution(loss, shrinkage):
    return solve(problem(loss, shrinkage), Joint(), tol=1e-6)[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_solution_is_what_the_referee_says(solver, loss):
    objective = problem(loss)
    solution, _ = solve(objective, solver, max_iter=20)
    assert solution.B.shape == (K, T)
    assert solution.B.min() >= 0
    np.testing.assert_array_equal(solution.Omega, objective.penalty.relation(solution.B))
    again = objective.evaluate(solution.B, tol=1e-10)
    assert again.primal * (1 - 1e-10) <= solution.primal <= again.primal * (1 + 1e-2)
    assert solution.bound <= again.primal
    assert solution.gap == pytest.approx(solution.primal - solution.bound)
    assert solution.relative_gap == pytest.approx(solution.gap / solution.primal)
    for dual, machine in zip(solution.duals, objective.machines, strict=True):
        np.testing.assert_allclose(dual.a.sum(axis=0), 0, atol=1e-12 * np.abs(dual.a).sum())
        assert dual.a.shape == machine.y.shape


@pytest.mark.parametrize("shrinkage", [0.1, 0.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_gap_is_honest(solver, loss, shrinkage):
    best = tight_solution(loss, shrinkage)
    solution, run = solve(problem(loss, shrinkage), solver, max_iter=4)
    # The optimum lies between the two bounds of the tight solution, and so between those of any other.
    assert best.bound <= solution.primal
    assert solution.bound <= best.primal
    assert all(iterate.bound <= best.primal and best.bound <= iterate.objective for iterate in run.iterates)


def test_history_has_an_entry_for_each_evaluation(solver):
    seen = []
    solution, run = solve(problem(), solver, max_iter=3, callback=seen.append)
    assert set(solution.history) == FIELDS
    assert seen == run.iterates
    for name, column in solution.history.items():
        np.testing.assert_array_equal(column, [getattr(iterate, name) for iterate in seen])
    np.testing.assert_array_equal(solution.history["iteration"], np.arange(1, len(seen) + 1))
    assert all(later >= earlier for earlier, later in itertools.pairwise(solution.history["seconds"]))
    assert all(later <= earlier for earlier, later in itertools.pairwise(solution.history["primal"]))
    assert all(later >= earlier for earlier, later in itertools.pairwise(solution.history["bound"]))
    assert solution.history["primal"][-1] == solution.primal
    assert solution.history["bound"][-1] == solution.bound
    assert solution.history["relative_gap"][-1] == solution.relative_gap
    assert any(np.array_equal(iterate.B, solution.B) for iterate in seen)
    for iterate in seen:
        np.testing.assert_array_equal(iterate.kernel_weights, iterate.B.T)
        assert iterate.effective_rank == effective_rank(iterate.B)


def test_iterates_are_copies(solver):
    kept = []
    solve(problem(), solver, max_iter=3, callback=lambda iterate: kept.append(iterate.B.copy()))

    def scribble(iterate):
        iterate.B[:] = np.nan

    rerun = []
    solve(problem(), solver, max_iter=3, callback=lambda iterate: (rerun.append(iterate.B.copy()), scribble(iterate)))
    np.testing.assert_array_equal(rerun, kept)


def test_two_runs_are_the_same(solver):
    (one, _), (two, _) = (solve(problem("hinge"), solver, max_iter=5) for _ in range(2))
    np.testing.assert_array_equal(one.B, two.B)
    assert one.primal == two.primal


def test_an_interrupt_in_a_callback_gets_out_and_leaves_what_was_kept(solver):
    kept = []

    def interrupt(iterate):
        kept.append(iterate)
        if len(kept) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(problem(), solver, tol=1e-9, callback=interrupt)
    assert len(kept) == 3
    best = min(kept, key=lambda iterate: iterate.objective)
    resumed, _ = solve(problem(), Joint(), tol=1e-4, B=best.B)
    assert resumed.status is Status.CONVERGED


def test_a_start_is_used(solver):
    best = tight_solution("squared", 0.1)
    solution, run = solve(problem(), solver, tol=1e-3, B=best.B, max_iter=5)
    np.testing.assert_allclose(run.iterates[0].B, best.B, rtol=1e-14)
    assert run.iterates[0].relative_gap <= 1e-3
    assert solution.status is Status.CONVERGED
    if solver.name == "joint":
        assert len(run.iterates) == 1


@pytest.mark.parametrize("start", ["one row", "one column", "one entry"])
def test_a_start_with_zeros_is_no_trap(start):
    B = np.zeros((K, T))
    B[{"one row": np.s_[0], "one column": np.s_[:, 0], "one entry": np.s_[0, 0]}[start]] = 1.0
    solution, _ = solve(problem(), Joint(), tol=1e-5, B=B)
    assert solution.status is Status.CONVERGED


def test_max_iter_is_kept_and_told(solver):
    solution, run = solve(problem(shrinkage=0.0), solver, tol=1e-9, max_iter=3)
    assert solution.status is Status.MAX_ITER
    assert "max_iter" in solution.status.value
    if solver.name == "joint":
        assert len(run.iterates) == 3


def test_one_evaluation_is_enough_for_a_solution(solver):
    solution, _ = solve(problem(), solver, tol=1e-9, max_iter=1)
    assert solution.primal >= solution.bound
    assert solution.status is Status.MAX_ITER


def test_verbose_prints_a_line_for_each_iteration(solver, capsys):
    _, run = solve(problem(), solver, max_iter=2, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(run.iterates)
    for iterate, line in zip(run.iterates, lines, strict=True):
        words = line.split()
        assert words[:2] == ["[kernelkin]", str(iterate.iteration)]
        assert float(words[words.index("objective") + 1]) == pytest.approx(iterate.primal, rel=1e-5)
        assert float(words[words.index("bound") + 1]) == pytest.approx(iterate.bound, rel=1e-5)
        assert float(words[words.index("gap") + 1]) == pytest.approx(iterate.relative_gap, rel=0.1)


def test_silent_by_default(solver, capsys):
    solve(problem(), solver, max_iter=2)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("which", ["one task", "all tasks"])
def test_targets_that_are_constant(solver, which):
    """Nothing to learn: such a task needs no kernel, and where all are so the optimum is zero."""
    stacks, ys = random_problem(0, "squared", T, K)
    ys = [np.full_like(y, 3.0) if which == "all tasks" or t == 1 else y for t, y in enumerate(ys)]
    solution, _ = solve(make_problem(stacks, ys, "squared", RelationPenalty(T)), solver, max_iter=50)
    assert np.isfinite(solution.B).all()
    assert np.isfinite(solution.relative_gap)
    np.testing.assert_allclose(solution.duals[1].a, 0, atol=1e-12)
    if which == "all tasks":
        assert solution.primal <= 1e-6
