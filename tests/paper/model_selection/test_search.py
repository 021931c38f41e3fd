import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV

from kernelkin import (
    AverageRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    STLClassifier,
    gaussian_kernels,
    linear_kernels,
)
from kernelkin.data.folds import make_folds
from kernelkin.paper import IKLClassifier, MTFLRegressor, MTRLClassifier
from kernelkin.paper.model_selection import MKMTRLClassifierCV, MKMTRLRegressorCV, MultiTaskCV
from scikit_learn_checks import PROBABILITIES, run_checks

KERNELS = [*gaussian_kernels([0.5, 2.0]), *linear_kernels()]


def long_data(seed=0, n=18, classification=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3 * n, 3))
    f = np.sin(2 * X[:, 0]) + np.repeat([1.0, 1.0, -1.0], n) * X[:, 1] + 0.3 * rng.normal(size=3 * n)
    return X, f > 0 if classification else f, np.repeat(["a", "b", "c"], n)


def refit_scores(estimator, X, y, tasks, params, folds):
    """The pooled score of each task, from one plain fit on each fold."""
    truth, predicted = {}, {}
    for train, test in folds:
        fitted = clone(estimator).set_params(**params).fit(X[train], y[train], tasks=tasks[train])
        for task in np.unique(tasks):
            rows = test[tasks[test] == task]
            truth.setdefault(task, []).append(y[rows])
            predicted.setdefault(task, []).append(fitted.predict(X[rows], tasks=tasks[rows]))
    return {task: (np.concatenate(truth[task]), np.concatenate(predicted[task])) for task in truth}


def splits(n, k=3, seed=0):
    labels = np.random.default_rng(seed).permutation(n) % k
    return [(np.flatnonzero(labels != fold), np.flatnonzero(labels == fold)) for fold in range(k)]


def fixed_widths():
    """Kernels whose widths do not depend on the rows, which a search fits once and a plain fit on every fold."""
    return [*gaussian_kernels([0.5, 2.0], relative=False), *linear_kernels()]


REGRESSORS = {
    "mk-mtrl": (MKMTRLRegressor(), {"mu": 0.1, "C": 2.0}),
    "coupled": (MKMTRLRegressor(couplings="common"), {"mu": 0.1, "C": 2.0}),
    "svr": (MKMTRLRegressor(loss="epsilon_insensitive", normalize=None), {"mu": 0.1}),
    "alternating": (MKMTRLRegressor(solver="alternating"), {"mu": 0.1}),
    "average": (AverageRegressor(), {"C": 3.0}),
    "mtfl": (MTFLRegressor(), {"C": 3.0}),
}


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.filterwarnings("ignore:.*MKMTRLRegressor.*")
def test_scores_are_those_of_plain_fits(name):
    estimator, params = REGRESSORS[name]
    estimator = clone(estimator).set_params(kernels=fixed_widths(), tol=1e-7)
    X, y, tasks = long_data()
    folds = splits(len(X))
    pairs = refit_scores(estimator, X, y, tasks, params, folds).values()
    expected = np.mean([1 - ((t - s) ** 2).sum() / ((t - t.mean()) ** 2).sum() for t, s in pairs])
    grid = {key: [value] for key, value in params.items()}
    search = MultiTaskCV(estimator, grid, cv=folds, search_tol=1e-7, scoring="r2").fit(X, y, tasks=tasks)
    assert search.best_score_ == pytest.approx(expected, abs=2e-3)
    plain = clone(estimator).set_params(**params).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(search.predict(X, tasks=tasks), plain.predict(X, tasks=tasks), atol=1e-9)


def test_scores_of_wide_data_with_missing_labels_are_those_of_plain_fits():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    Y = np.sin(X[:, :2]) + X[:, [2]] + 0.1 * rng.normal(size=(30, 2))
    Y[rng.random((30, 2)) < 0.2] = np.nan
    estimator = MKMTRLRegressor(fixed_widths(), couplings="common", tol=1e-8)
    folds = splits(30)
    predicted = np.full(Y.shape, np.nan)
    for train, test in folds:
        predicted[test] = clone(estimator).fit(X[train], Y[train]).predict(X[test])
    known = ~np.isnan(Y)
    expected = np.mean([-((Y[k, t] - predicted[k, t]) ** 2).mean() for t, k in enumerate(known.T)])
    search = MultiTaskCV(estimator, {"C": [1.0]}, cv=folds, search_tol=1e-8, scoring="neg_mean_squared_error")
    assert search.fit(X, Y).best_score_ == pytest.approx(expected, abs=1e-4)


def test_precomputed_grams_give_what_kernels_give():
    X, y, tasks = long_data()
    model = MKMTRLRegressor(KERNELS, couplings="common")
    grid = {"mu": [0.01, 1.0], "couplings": [None, "common"]}
    plain = MultiTaskCV(model, grid, random_state=0).fit(X, y, tasks=tasks)
    grams = np.stack([kernel(X) for kernel in plain.kernels_], axis=2)
    search = MultiTaskCV(clone(model).set_params(kernels="precomputed"), grid, random_state=0)
    search.fit(grams, y, tasks=tasks)
    for name in ("mean_test_score", "standard_error"):
        np.testing.assert_allclose(search.cv_results_[name], plain.cv_results_[name], rtol=1e-6)


def test_candidates_of_equal_mu_over_c_cubed_are_one_model():
    X, y, tasks = long_data(classification=True)
    folds = splits(len(X))
    one, other = {"C": 1.0, "mu": 0.1}, {"C": 4.0, "mu": 6.4}
    pairs = [
        refit_scores(MKMTRLClassifier(KERNELS, tol=1e-9, max_iter=500), X, y, tasks, params, folds).values()
        for params in (one, other)
    ]
    for (_, predicted), (_, predicted_too) in zip(*pairs, strict=True):
        np.testing.assert_array_equal(predicted, predicted_too)
    grid = [{name: [value] for name, value in params.items()} for params in (one, other, {"C": 4.0, "mu": 0.1})]
    calls = []
    search = MultiTaskCV(
        MKMTRLClassifier(KERNELS), grid, cv=folds, scoring="roc_auc", callback=lambda *c: calls.append(c)
    )
    scores = search.fit(X, y, tasks=tasks).cv_results_["mean_test_score"]
    assert scores[0] == scores[1] != scores[2]
    # They are solved once: two problems on three folds.
    assert calls[-1] == (6, 6)


def test_the_choice_is_that_of_grid_search():
    X, y, tasks = long_data(classification=True, n=20)
    labelled = np.column_stack([np.unique(tasks, return_inverse=True)[1], X])
    model = MKMTRLClassifier(fixed_widths(), task_column=0)
    grid = {"C": [0.1, 1.0], "mu": [1e-3, 1.0, 1e5]}
    data = clone(model).training_data(labelled, y)
    folds = [fold.rows(data) for fold in make_folds(data, 4, classification=True, random_state=0)]
    theirs = GridSearchCV(model, grid, cv=folds).fit(labelled, y)
    ours = MultiTaskCV(model, grid, cv=folds, scoring="accuracy").fit(labelled, y)
    assert ours.best_params_ == theirs.best_params_
    found = theirs.cv_results_["mean_test_score"]
    # Folds are of one size, so pooling them and averaging them is the same.
    useful = found > 0.6
    assert 1 < useful.sum() < len(found)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"][useful], found[useful], atol=0.02)
    error = theirs.cv_results_["std_test_score"] / np.sqrt(3)
    np.testing.assert_allclose(ours.cv_results_["standard_error"][useful], error[useful], atol=0.02)


def test_kernels_are_evaluated_once(monkeypatch):
    import kernelkin.paper.grams.build as build

    calls = []
    evaluate = build.evaluate
    monkeypatch.setattr(build, "evaluate", lambda *args: calls.append(1) or evaluate(*args))
    X, y, tasks = long_data()
    MultiTaskCV(MKMTRLRegressor(KERNELS), {"mu": [0.1, 1.0], "shrinkage": [0.1, 1.0]}).fit(X, y, tasks=tasks)
    assert len(calls) == 3


@pytest.mark.parametrize("couplings", [None, "common"])
def test_n_jobs_changes_nothing(couplings):
    X, y, tasks = long_data(classification=True)
    grid = {"mu": [0.1, 1.0, 10.0], "shrinkage": [0.1, 1.0], "couplings": [couplings]}
    tables = [
        MKMTRLClassifierCV(KERNELS, grid=grid, random_state=0, n_jobs=n, scoring="roc_auc").fit(X, y, tasks=tasks)
        for n in (1, 3)
    ]
    for name in ("mean_test_score", "standard_error", "split0_test_score"):
        np.testing.assert_array_equal(*(table.cv_results_[name] for table in tables))
    np.testing.assert_array_equal(*(table.kernel_weights_ for table in tables))


def test_a_grid_may_change_kernels_and_scaling():
    X, y, tasks = long_data()
    grid = [{"kernels": [KERNELS, KERNELS[:1]]}, {"normalize": ["center"], "couplings": [None, "common"]}]
    search = MultiTaskCV(MKMTRLRegressor(fixed_widths()), grid, random_state=0).fit(X, y, tasks=tasks)
    for i, params in enumerate(search.cv_results_["params"]):
        alone = MultiTaskCV(MKMTRLRegressor(fixed_widths()).set_params(**params), {"C": [1.0]}, random_state=0)
        assert alone.fit(X, y, tasks=tasks).best_score_ == search.cv_results_["mean_test_score"][i]


@pytest.mark.parametrize("estimator", [IKLClassifier(KERNELS), STLClassifier(KERNELS), MTRLClassifier(KERNELS)])
def test_baselines_are_searched(estimator):
    X, y, tasks = long_data(classification=True)
    search = MultiTaskCV(estimator, {"C": [1e-4, 1.0]}, scoring="roc_auc", random_state=0).fit(X, y, tasks=tasks)
    assert search.best_score_ > 0.7
    assert search.decision_function(X, tasks).shape == y.shape
    assert search.score_tasks(X, y, tasks).keys() == {"a", "b", "c"}


@pytest.mark.parametrize("estimator", [MKMTRLClassifier(couplings="common"), MKMTRLClassifier(), MTRLClassifier()])
def test_many_classes_score_as_in_plain_fits(estimator):
    X, y, tasks = long_data(n=20)
    y, folds = np.digitize(y, [-0.7, 0.7]).astype(str), splits(60)
    estimator = clone(estimator).set_params(kernels=fixed_widths(), tol=1e-4)
    pairs = refit_scores(estimator, X, y, tasks, {}, folds).values()
    search = MultiTaskCV(estimator, {"C": [1.0]}, cv=folds, search_tol=1e-4, scoring="accuracy").fit(X, y, tasks=tasks)
    assert search.best_score_ == pytest.approx(np.mean([(t == s).mean() for t, s in pairs]), abs=1e-12)


def test_fitted_attributes_are_those_of_the_best():
    X, y, tasks = long_data()
    model = MKMTRLRegressorCV(KERNELS, grid={"mu": [1e-2, 1e4]}, random_state=0).fit(X, y, tasks=tasks)
    assert model.best_params_ == {"mu": 1e-2}
    plain = MKMTRLRegressor(KERNELS, mu=1e-2).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(model.kernel_weights_, plain.kernel_weights_)
    np.testing.assert_allclose(model.predict(X, tasks), plain.predict(X, tasks))
    assert model.cv_results_["rank_test_score"].tolist() == [1, 2]


def test_progress_is_shown(capsys):
    X, y, tasks = long_data()
    MKMTRLRegressorCV(KERNELS, grid={"mu": [0.1]}, cv=3, verbose=1).fit(X, y, tasks=tasks)
    assert capsys.readouterr().err.startswith("[1/1] cross-validation")


@pytest.mark.parametrize("estimator", [MKMTRLRegressor(KERNELS), AverageRegressor(KERNELS)])
def test_the_callback_is_called_for_each_candidate_on_each_fold(estimator):
    X, y, tasks = long_data()
    told = []
    search = MultiTaskCV(estimator, {"C": [0.1, 1, 10]}, cv=3, n_jobs=2, callback=lambda *counts: told.append(counts))
    search.fit(X, y, tasks=tasks)
    assert told == [(done, 9) for done in range(1, 10)]


@pytest.mark.parametrize(
    ("grid", "message"),
    [({"nu": [1]}, "'nu' cannot be in the grid"), ({"task_column": [0]}, "'task_column' cannot be in the grid")],
)
def test_a_grid_of_what_is_no_parameter_is_refused(grid, message):
    X, y, tasks = long_data()
    with pytest.raises(ValueError, match=message):
        MultiTaskCV(MKMTRLRegressor(), grid).fit(X, y, tasks=tasks)


@pytest.mark.parametrize(
    "search",
    [
        MKMTRLClassifierCV(linear_kernels(), grid={"mu": [0.1, 1.0]}, cv=2),
        MultiTaskCV(AverageRegressor(linear_kernels()), {"C": [0.1, 1.0]}, cv=2),
    ],
    ids=lambda search: type(search).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_accepts_it(search):
    run_checks(search, PROBABILITIES if is_classifier(search) else {})


def test_estimating_memory_searches_nothing():
    X, y, tasks = long_data()
    search = MKMTRLRegressorCV(KERNELS)
    assert search.estimate_memory(X, y, tasks) >= MKMTRLRegressor(KERNELS).estimate_memory(X, y, tasks)
    assert vars(search) == vars(MKMTRLRegressorCV(KERNELS))


def test_what_is_planned_does_not_depend_on_the_targets_that_are_held_out():
    """The scores of a fold are those of a fit that never saw the held-out targets."""
    X, y, tasks = long_data()
    folds = splits(len(X))
    searches = []
    for seed in (None, 0):
        held = folds[0][1]
        spoilt = y.copy()
        if seed is not None:
            spoilt[held] = 100 * np.random.default_rng(seed).normal(size=len(held))
        model = MultiTaskCV(MKMTRLRegressor(KERNELS), {"mu": [0.1]}, cv=folds, scoring=lambda y, values: values.sum())
        searches.append(model.fit(X, spoilt, tasks=tasks).cv_results_["split0_test_score"])
    np.testing.assert_allclose(searches[0], searches[1], rtol=1e-9)


def test_the_order_of_coupled_and_other_candidates_does_not_matter():
    X, y, tasks = long_data()
    scores = []
    for couplings in ([None, "common"], ["common", None]):
        search = MKMTRLRegressorCV(grid={"couplings": couplings}, cv=2, random_state=0).fit(X, y, tasks=tasks)
        scores.append(dict(zip(couplings, search.cv_results_["mean_test_score"], strict=True)))
    assert scores[0] == pytest.approx(scores[1], abs=1e-12)


def test_a_number_for_mu_and_the_scale_of_the_targets_are_two_candidates():
    X, y, tasks = long_data()
    grid = {"mu": ["scale", 1.0, 1e4]}
    search = MultiTaskCV(MKMTRLRegressor(KERNELS), grid, cv=2, random_state=0).fit(X, 100 * y, tasks=tasks)
    scores = search.cv_results_["mean_test_score"]
    given = MultiTaskCV(MKMTRLRegressor(KERNELS), {"mu": ["scale"]}, cv=2, random_state=0).fit(X, 100 * y, tasks=tasks)
    assert scores[0] == pytest.approx(given.best_score_, abs=1e-3)
    assert abs(scores[1] - scores[0]) > 0.01


def test_scores_that_are_all_undefined_are_told_for_the_default_grid_too():
    y = np.zeros(40, dtype=int)
    y[[0, 20]] = 1  # one positive row in each task, always in training
    X, tasks = np.random.default_rng(0).normal(size=(40, 2)), np.repeat(["a", "b"], 20)
    with pytest.raises(ValueError, match="no candidate has a score: it is undefined on the held-out rows"):
        MKMTRLClassifierCV(["linear"], scoring="roc_auc", cv=2, random_state=0).fit(X, y, tasks=tasks)
