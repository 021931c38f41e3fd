"""A specification on data, planned and run without an estimator."""

import numpy as np
import pytest
from models.problems import long_data

from kernelkin import MKMTRLRegressor
from kernelkin.data.forms import read_training
from kernelkin.estimators import RunOptions
from kernelkin.paper.fitting.fit import Fit, Shape
from kernelkin.paper.fitting.pooled import PooledFit
from kernelkin.paper.fitting.targets import Regression
from kernelkin.paper.grams.build import raw_grams
from kernelkin.paper.models.linear import LinearFit
from kernelkin.paper.models.machines import relation_penalty
from kernelkin.paper.penalties import FixedWeights, LpPenalty, SpectralNorm
from kernelkin.paper.problems import Problem
from kernelkin.paper.solvers import solve

X, Y, LABELS, TASKS = long_data(0)
DATA = read_training(X, Y, TASKS, None, classification=False)


def relation_fit(**changes):
    return Fit(**{"targets": Regression(), "penalty": relation_penalty, "C": 3.0, **changes})


def test_specification_plan_and_run_are_what_an_estimator_does():
    fitted = relation_fit().plan(DATA).run(RunOptions())
    model = MKMTRLRegressor(C=3.0).fit(X, Y, tasks=TASKS)
    np.testing.assert_array_equal(fitted.attributes["kernel_weights_"], model.kernel_weights_)
    codes = np.searchsorted(model.tasks_, TASKS)
    values = fitted.attributes["functions_"].values(X, codes)[:, 0]
    np.testing.assert_array_equal(values, model.predict(X, tasks=TASKS))
    assert fitted.warnings == ()
    assert set(fitted.attributes) <= set(vars(model))


def test_what_a_run_warns_of_is_left_to_the_caller():
    fitted = relation_fit(tol=1e-9, max_iter=2).plan(DATA).run(RunOptions())
    ((message, category),) = fitted.warnings
    assert category.__name__ == "ConvergenceWarning"
    assert message.startswith("stopped at max_iter; raise max_iter or loosen tol. The relative duality gap is")


def test_a_plan_has_the_problem_in_standard_units_and_solves_it_in_the_users():
    plan = relation_fit(tol=1e-6).plan(DATA)
    grams, _ = plan.grams()
    problem = plan.problem(grams)
    assert isinstance(problem, Problem)
    targets = np.concatenate([machine.y[:, 0] for machine in problem.machines])
    assert 0.5 < np.sqrt(np.mean(targets**2)) < 2
    by_hand = plan.units.restore(solve(problem, tol=1e-6))
    solution = solve(problem, tol=1e-6, units=plan.units)
    assert by_hand.primal == pytest.approx(solution.primal, rel=1e-12)
    judged = plan.units.restore(problem.evaluate(plan.units.weights(solution.B), tol=1e-9))
    assert judged.bound <= solution.primal
    assert judged.primal >= solution.bound


def test_the_shape_that_a_penalty_is_made_for_counts_couplings():
    seen = []

    def penalty(shape):
        seen.append(shape)
        return LpPenalty(2.0)

    relation_fit(penalty=penalty, kernels=["rbf", "linear"], couplings="common").plan(DATA)
    assert seen == [Shape(n_kernels=2, tasks=DATA.labels.tolist(), n_couplings=1)]
    assert seen[0].n_components == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unknown_tasks": "common"}, r"unknown_tasks='common' .*: set couplings='common'"),
        ({"init": np.ones((6, 3))}, r"init must be kernel weights of shape \(3, 6\), got \(6, 3\)"),
        ({"init": np.zeros((3, 6))}, r"init must be kernel weights that are finite, non-negative and not all zero"),
        ({"mu": 5e-324}, r"mu=5e-324 cannot be distinguished from none for these data .* between 1e-30 and 1e\+30"),
        ({"mu": 1e200}, r"mu=1e\+200 cannot be distinguished from infinite strength for these data"),
        (
            {"C": 1e-300, "targets": Regression("epsilon_insensitive")},
            r"mu=.* cannot be distinguished|C is about 1e-300",
        ),
    ],
)
def test_what_does_not_fit_the_data_is_refused_before_a_kernel_is_evaluated(changes, message, monkeypatch):
    monkeypatch.setattr("kernelkin.paper.grams.build.evaluate", None)
    with pytest.raises(ValueError, match=message):
        relation_fit(**changes).plan(DATA)


def test_a_plan_reuses_fitted_kernels_and_evaluated_grams():
    first = relation_fit(C=1.0).plan(DATA)
    raw = raw_grams(DATA, first.kernels, "trace")
    second = relation_fit(C=5.0).plan(DATA, first.kernels)
    shared, alone = second.run(RunOptions(), raw), relation_fit(C=5.0).plan(DATA).run(RunOptions())
    np.testing.assert_array_equal(shared.attributes["kernel_weights_"], alone.attributes["kernel_weights_"])


def test_a_fit_that_chooses_one_kernel_plans_with_that_alone():
    fit = relation_fit(kernels=["rbf", "linear", "poly"], choose_kernel=lambda names: names.index("linear"))
    plan = fit.plan(DATA)
    assert [kernel.name for kernel in plan.kernels] == ["linear"]


def test_path_positions_of_equal_mu_over_c_cubed_are_one():
    assert relation_fit(C=4.0, mu=6.4).path_position == pytest.approx(relation_fit(C=1.0, mu=0.1).path_position)


def test_fixed_weights_take_one_evaluation():
    fitted = relation_fit(penalty=lambda shape: FixedWeights(np.ones((6, 3)))).plan(DATA).run(RunOptions())
    assert fitted.attributes["n_iter_"] == 1
    np.testing.assert_array_equal(fitted.attributes["kernel_weights_"], np.ones((3, 6)))


def test_the_other_specifications_are_planned_and_run_the_same_way():
    from sklearn.linear_model import LinearRegression

    for fit in (PooledFit(targets=Regression(), norm=SpectralNorm(0.0, 1.0)), LinearFit(LinearRegression)):
        plan = fit.plan(DATA)
        assert plan.memory().peak > X.nbytes
        values = plan.run(RunOptions()).attributes["functions_"].values(X, np.zeros(len(X), dtype=int))
        assert values.shape == (len(X), 1)


@pytest.mark.parametrize(("T", "offset"), [(1, 0.0), (3, 1e6)])
def test_the_spread_of_regression_targets_is_their_variance_within_tasks(T, offset):
    rng = np.random.default_rng(T)
    tasks = np.repeat(np.arange(T), 20)
    y, weight = rng.normal(size=20 * T) + offset * tasks, rng.uniform(1, 2, size=20 * T)
    data = read_training(np.zeros((20 * T, 1)), y, tasks, weight, classification=False)
    residual = y - np.array([np.average(y[tasks == t], weights=weight[tasks == t]) for t in range(T)])[tasks]
    assert Regression().spread(data) == pytest.approx(weight @ residual**2 / weight.sum(), rel=1e-6)
