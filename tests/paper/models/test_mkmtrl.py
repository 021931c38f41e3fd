"""MK-MTRL: what it finds, what it stores, and how it runs."""

import pickle

import numpy as np
import pandas as pd
import pytest
from models.problems import NAMES, grouped_data, long_data, targets, values
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels, polynomial_kernels
from kernelkin.exceptions import CollapseWarning
from kernelkin.paper.penalties import effective_rank
from kernelkin.paper.solvers import SOLVERS, Alternating

# What is found


@pytest.mark.parametrize("regression", [True, False])
def test_two_groups_are_plain_with_min_rank_two(regression):
    data = grouped_data(regression)
    model = MKMTRLRegressor if regression else MKMTRLClassifier
    fit = model(data.kernels, C=10.0, min_rank=2).fit(data.data, data.target, tasks=data.tasks)
    together = data.groups[:, None] == data.groups
    others = ~np.eye(len(together), dtype=bool)
    matrix = fit.task_relationship_
    assert matrix[together & others].min() > matrix[~together].max()
    # Each task puts most of its weight on the kernels that its group needs.
    needed = data.kernel_weights > 0
    shares = fit.kernel_weights_ / fit.kernel_weights_.sum(axis=1, keepdims=True)
    assert (shares * needed).sum(axis=1).min() > 0.6


@pytest.mark.parametrize(("regression", "tol"), [(True, 1e-3), (False, 1e-5)])
def test_the_papers_own_penalty_collapses_and_a_warning_says_so(regression, tol):
    data = grouped_data(regression)
    model = (MKMTRLRegressor if regression else MKMTRLClassifier)(
        data.kernels, C=10.0, shrinkage=0, min_rank=1, tol=tol
    )
    with pytest.warns(CollapseWarning, match=r"all 6 tasks use the same mix of kernels.* Try min_rank=2") as caught:
        model.fit(data.data, data.target, tasks=data.tasks)
    assert caught[0].filename == __file__
    assert abs(model.effective_rank_ - 1) <= 1e-3
    shares = model.kernel_weights_ / model.kernel_weights_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, shares[[0]].repeat(6, axis=0), atol=1e-3)


def test_no_warning_where_one_mix_is_all_there_can_be():
    X, y, _, tasks = long_data(13)
    for model in (
        MKMTRLRegressor(shrinkage=0).fit(X[tasks == "ada"], y[tasks == "ada"]),
        MKMTRLRegressor("rbf", shrinkage=0).fit(X, y, tasks=tasks),
    ):
        assert model.effective_rank_ == pytest.approx(1.0)


def test_a_prior_is_in_the_order_of_tasks_and_of_any_scale():
    X, y, _, tasks = long_data(14)
    prior = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 1.0]])
    held = MKMTRLRegressor(prior=7 * prior, shrinkage=1.0).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(held.task_relationship_, prior / 3, atol=1e-12)
    assert held.tasks_.tolist() == NAMES.tolist()


@pytest.mark.parametrize("kind", ["pandas", "polars", "dict"])
def test_a_prior_with_names_is_matched_by_the_names_of_the_tasks(kind):
    X, y, _, tasks = long_data(14)
    prior = np.array([[1.0, 0.8, 0.1], [0.8, 1.0, 0.0], [0.1, 0.0, 1.0]])
    rows, columns = ([2, 0, 1], [1, 2, 0]) if kind == "pandas" else ([2, 0, 1], [2, 0, 1])
    frame = pd.DataFrame(prior[np.ix_(rows, columns)], index=NAMES[rows], columns=NAMES[columns])
    if kind != "pandas":
        frame = frame.to_dict("list") if kind == "dict" else pytest.importorskip("polars").from_pandas(frame)
    held = MKMTRLRegressor(prior=frame, shrinkage=1.0).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(held.task_relationship_, prior / 3, atol=1e-12)


@pytest.mark.parametrize(
    ("index", "columns", "message"),
    [
        ([*NAMES[:2], "zoe"], NAMES, rf"the rows of prior .*; missing: '{NAMES[2]}'; not a task.*: 'zoe'"),
        (NAMES, range(3), rf"the columns of prior .*; missing: '{NAMES[0]}', .*; not a task.*: 0, 1, 2"),
        (NAMES[[0, 1, 1]], NAMES, rf"the rows of prior .*; missing: '{NAMES[2]}'; .* given twice: '{NAMES[1]}'"),
    ],
)
def test_a_prior_whose_names_are_not_those_of_the_tasks_is_refused(index, columns, message):
    X, y, _, tasks = long_data(14)
    with pytest.raises(ValueError, match=message):
        MKMTRLRegressor(prior=pd.DataFrame(np.eye(3), index=index, columns=columns)).fit(X, y, tasks=tasks)


@pytest.mark.parametrize("couplings", [None, "common"])
def test_targets_in_other_units_lead_to_the_same_fit(couplings):
    X, y, _, tasks = long_data(14)
    model = MKMTRLRegressor(couplings=couplings, tol=1e-8, max_iter=500)
    expected = model.fit(X, y, tasks=tasks)
    weights, prediction = expected.kernel_weights_, expected.predict(X, tasks=tasks)
    model.fit(X, 1e4 * y - 3, tasks=tasks)
    np.testing.assert_allclose(model.kernel_weights_, weights, atol=1e-4 * weights.max())
    np.testing.assert_allclose((model.predict(X, tasks=tasks) + 3) / 1e4, prediction, atol=1e-5 * np.ptp(y))


def test_the_scale_of_the_targets_is_their_variance_within_tasks():
    X, y, _, tasks = long_data(14)
    y = y + 10 * np.unique(tasks, return_inverse=True)[1]
    variance = np.mean(np.concatenate([y[tasks == task] - y[tasks == task].mean() for task in NAMES]) ** 2)
    scaled, given = (MKMTRLRegressor(mu=mu).fit(X, y, tasks=tasks) for mu in ("scale", variance))
    np.testing.assert_allclose(scaled.objective_, given.objective_, rtol=1e-12)


# What is stored


def test_fitted_attributes():
    X, y, _, tasks = long_data(15)
    model = MKMTRLRegressor().fit(X, y, tasks=tasks)
    T, K = 3, 6
    assert model.tasks_.tolist() == NAMES.tolist()
    assert model.kernel_weights_.shape == (T, K)
    assert model.kernel_weights_.min() >= 0
    assert len(model.kernels_) == len(model.kernel_names_) == K
    assert model.kernel_names_.tolist() == [kernel.name for kernel in model.kernels_]
    assert model.kernel_names_[-1] == "linear"
    np.testing.assert_allclose(np.trace(model.task_relationship_), 1)
    assert [a.shape for a in model.dual_coef_] == [(14, 1)] * T
    assert model.intercept_.shape == (T,)
    assert 0 <= model.duality_gap_ <= model.tol * model.objective_
    assert model.effective_rank_ == pytest.approx(effective_rank(model.kernel_weights_))
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")
    assert model.n_iter_ == len(model.history_["objective"])
    assert set(model.history_) == {
        "iteration", "objective", "primal", "bound", "relative_gap", "effective_rank", "seconds",
    }  # fmt: skip
    assert model.history_["primal"][-1] == model.objective_
    assert model.history_["primal"][-1] - model.history_["bound"][-1] == pytest.approx(model.duality_gap_)


def test_only_support_rows_are_kept():
    """A fitted model keeps support rows and coefficients, never its training Grams."""
    X, _, labels, tasks = long_data(16, n=60)
    model = MKMTRLClassifier(C=100.0).fit(X, labels, tasks=tasks)
    grams = 6 * sum(60**2 for _ in NAMES) * 8
    assert len(pickle.dumps(model)) < grams / 5
    assert sum(np.count_nonzero(a) for a in model.dual_coef_) < len(X)


def test_pickle_and_clone():
    X, _, y, tasks = long_data(17)
    model = MKMTRLClassifier([*gaussian_kernels(), *polynomial_kernels(2), "laplacian"]).fit(X, y, tasks=tasks)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(values(again, X, tasks=tasks), values(model, X, tasks=tasks))
    copy = clone(model)
    assert copy.get_params()["kernels"] is not None
    with pytest.raises(NotFittedError):
        copy.predict(X, tasks=tasks)
    np.testing.assert_array_equal(copy.fit(X, y, tasks=tasks).kernel_weights_, model.kernel_weights_)


# How it runs


def test_a_solver_of_another_problem_is_refused_by_name():
    for solver in [name for name in SOLVERS if name not in ("joint", "alternating")]:
        X, y, _, tasks = long_data(19)
        message = (
            f"solver {solver!r} cannot solve a Problem with the relation penalty; use solver='joint' or "
            "solver='alternating'"
        )
        with pytest.raises(ValueError, match=message):
            MKMTRLRegressor(solver=SOLVERS[solver]()).fit(X, y, tasks=tasks)


def test_alternating_agrees_with_joint():
    X, y, _, tasks = long_data(20)
    joint = MKMTRLRegressor(tol=1e-6, C=5.0).fit(X, y, tasks=tasks)
    alternating = MKMTRLRegressor(tol=1e-3, C=5.0, solver=Alternating(change=1e-5)).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(alternating.objective_, joint.objective_, rtol=1e-3)
    assert joint.objective_ - joint.duality_gap_ <= alternating.objective_


def test_max_iter_warns_with_the_gap_and_what_to_do():
    X, y, _, tasks = long_data(21)
    model = MKMTRLRegressor(tol=1e-9, max_iter=3)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y, tasks=tasks)
    (warning,) = caught
    assert warning.filename == __file__
    gap = model.duality_gap_ / model.objective_
    assert str(warning.message) == (
        "MKMTRLRegressor: stopped at max_iter; raise max_iter or loosen tol. The relative duality gap is "
        f"{gap:.1e}, but tol=1e-09."
    )
    assert model.n_iter_ == 3


def test_verbose_prints_each_iteration(capsys):
    X, y, _, tasks = long_data(22)
    model = MKMTRLRegressor().fit(X, y, tasks=tasks)
    assert capsys.readouterr().out == ""
    model.set_params(verbose=1).fit(X, y, tasks=tasks)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    assert all(word in lines[-1] for word in ("objective", "bound", "gap", "rank"))


def test_an_interrupted_fit_continues_from_what_the_callback_kept():
    X, y, _, tasks = long_data(23)
    model, kept = MKMTRLRegressor(tol=1e-5), []

    def keep(iterate):
        kept.append(iterate)
        if len(kept) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clone(model).set_params(callback=keep, n_jobs=2).fit(X, y, tasks=tasks)
    assert [iterate.iteration for iterate in kept] == [1, 2]
    whole = clone(model).fit(X, y, tasks=tasks)
    resumed = clone(model).set_params(init=kept[-1].kernel_weights).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(resumed.history_["objective"][0], kept[-1].objective, rtol=1e-2)
    np.testing.assert_allclose(resumed.objective_, whole.objective_, rtol=1e-5)


def test_a_fit_can_start_from_another():
    X, y, _, tasks = long_data(24)
    first = MKMTRLRegressor(tol=1e-6).fit(X, y, tasks=tasks)
    second = MKMTRLRegressor(tol=1e-4, init=first.kernel_weights_).fit(X, y, tasks=tasks)
    assert second.n_iter_ == 1


def test_weights_of_rows_are_repetitions(model):
    """Weighting a row by two equals repeating it: kernel scaling, bandwidths and costs."""
    X, y, labels, tasks = long_data(25)
    y = targets(model, y, labels)
    weight = np.random.default_rng(0).integers(1, 4, size=len(X))
    model.set_params(tol=1e-7)
    weighted = clone(model).fit(X, y, tasks=tasks, sample_weight=weight)
    every = np.repeat(np.arange(len(X)), weight)
    repeated = clone(model).fit(X[every], y[every], tasks=tasks[every])
    np.testing.assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-6)
    np.testing.assert_allclose(values(weighted, X, tasks=tasks), values(repeated, X, tasks=tasks), atol=2e-3)


def test_constant_targets_are_learned():
    X, y, _, tasks = long_data(26)
    y = np.where(tasks == "bea", 4.0, y)
    model = MKMTRLRegressor().fit(X, y, tasks=tasks)
    np.testing.assert_allclose(model.predict(X, tasks=["bea"] * len(X)), 4.0, rtol=1e-6)
    flat = MKMTRLRegressor().fit(X, np.full(len(X), -2.0), tasks=tasks)
    np.testing.assert_allclose(flat.predict(X, tasks=tasks), -2.0, rtol=1e-6)
