"""The estimators inside scikit-learn: pipelines, searches, cross-validation, metadata routing, precomputed Grams."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from models.problems import long_data, wide_data
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.metrics import accuracy_score, get_scorer, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneGroupOut,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels
from kernelkin.data import TaskKFold

MODELS = {"hinge": MKMTRLClassifier(), "squared": MKMTRLRegressor()}
FOLDS = KFold(3, shuffle=True, random_state=0)
LEFT_OUT = LeaveOneGroupOut()


@pytest.fixture
def model(request):
    """A classifier or a regressor, in turn."""
    tests = [name for name in dir(request.module) if name.startswith("test_")]
    return clone(list(MODELS.values())[tests.index(request.function.__name__) % 2])


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def with_column(model, seed=0):
    """X with the task of each row as last column (numbers), and targets."""
    X, y, labels, tasks = long_data(seed)
    codes = np.unique(tasks, return_inverse=True)[1]
    return np.column_stack([X, codes]), labels if isinstance(model, MKMTRLClassifier) else y


def test_grid_search_over_a_task_column(model):
    X, y = with_column(model)
    grid = {"C": [0.1, 10.0], "shrinkage": [0.1, 0.9]}
    search = GridSearchCV(clone(model).set_params(task_column=-1), grid, cv=FOLDS).fit(X, y)
    assert search.best_estimator_.tasks_.tolist() == [0, 1, 2]
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    np.testing.assert_array_equal(search.predict(X), search.best_estimator_.predict(X))
    assert search.score(X, y) == search.best_estimator_.score(X, y)
    # The score of a fold is the mean over tasks.
    train, test = next(FOLDS.split(X))
    first = clone(model).set_params(task_column=-1, C=0.1, shrinkage=0.1).fit(X[train], y[train])
    assert search.cv_results_["split0_test_score"][0] == first.score(X[test], y[test])


def test_cross_validation_over_a_task_column(model):
    X, y = with_column(model, 1)
    model.set_params(task_column=-1)
    scores = cross_val_score(model, X, y, cv=FOLDS, error_score="raise")
    predicted = cross_val_predict(model, X, y, cv=FOLDS)
    for (train, test), score in zip(FOLDS.split(X), scores, strict=True):
        fold = clone(model).fit(X[train], y[train])
        assert score == fold.score(X[test], y[test])
        np.testing.assert_array_equal(predicted[test], fold.predict(X[test]))
    if isinstance(model, MKMTRLClassifier):
        decided = cross_val_predict(model, X, y, cv=FOLDS, method="decision_function")
        np.testing.assert_array_equal(predicted, decided > 0)


def test_scorers_of_scikit_learn(model):
    X, y = with_column(model, 2)
    model.set_params(task_column=-1).fit(X, y)
    names = (
        ["accuracy", "roc_auc", "average_precision"]
        if isinstance(model, MKMTRLClassifier)
        else ["r2", "neg_mean_squared_error"]
    )
    for name in names:
        assert np.isfinite(get_scorer(name)(model, X, y))


def test_pipeline_with_a_frame(model):
    X, y, labels, tasks = long_data(3)
    y = labels if isinstance(model, MKMTRLClassifier) else y
    frame = pd.DataFrame(1000 * X + 5, columns=["a", "b", "c"]).assign(who=tasks)
    scale = ColumnTransformer([("scale", StandardScaler(), ["a", "b", "c"])], remainder="passthrough")
    scale.set_output(transform="pandas")
    chain = Pipeline([("scale", scale), ("model", clone(model).set_params(task_column="remainder__who"))])
    chain.fit(frame, y)
    assert chain[-1].tasks_.tolist() == ["ada", "bea", "cyd"]
    assert chain[-1].feature_names_in_.tolist() == ["scale__a", "scale__b", "scale__c", "remainder__who"]
    # Median-relative kernels do not see the scale where all columns share it.
    assert chain.predict(frame).shape == y.shape
    scores = cross_val_score(chain, frame, y, cv=FOLDS, error_score="raise")
    assert np.isfinite(scores).all()


def test_pipeline_with_tasks_as_a_fit_parameter(model):
    X, y, labels, tasks = long_data(4)
    y = labels if isinstance(model, MKMTRLClassifier) else y
    chain = make_pipeline(StandardScaler(), model)
    chain.fit(X, y, **{f"{type(model).__name__.lower()}__tasks": tasks})
    direct = clone(model).fit(StandardScaler().fit_transform(X), y, tasks=tasks)
    np.testing.assert_array_equal(
        chain[-1].predict(chain[:-1].transform(X), tasks=tasks),
        direct.predict(StandardScaler().fit_transform(X), tasks=tasks),
    )


def test_tasks_are_routed(model, routing):
    X, y, labels, tasks = long_data(5)
    y = labels if isinstance(model, MKMTRLClassifier) else y
    asking = clone(model)
    result = cross_validate(asking, X, y, cv=FOLDS, params={"tasks": tasks}, error_score="raise", return_estimator=True)
    for (_, test), fold, score in zip(FOLDS.split(X), result["estimator"], result["test_score"], strict=True):
        assert fold.tasks_.tolist() == ["ada", "bea", "cyd"]
        assert score == fold.score(X[test], y[test], tasks=tasks[test])
    search = GridSearchCV(asking, {"mu": [0.1, 1.0]}, cv=FOLDS, error_score="raise").fit(X, y, tasks=tasks)
    assert search.best_estimator_.tasks_.tolist() == ["ada", "bea", "cyd"]


@pytest.mark.parametrize("rows", [20, 5], ids=["several rows of a task in a fold", "one row of a task in a fold"])
def test_routed_tasks_give_finite_scores_with_folds_inside_tasks(rows, routing):
    X, y, _, tasks = long_data(5)
    kept = np.sort(np.concatenate([np.flatnonzero(tasks == task)[:rows] for task in np.unique(tasks)]))
    X, y, tasks, folds = X[kept], y[kept], tasks[kept], TaskKFold(5, random_state=0)
    scores = cross_val_score(MKMTRLRegressor(), X, y, cv=folds, params={"tasks": tasks})
    for (train, test), score in zip(folds.split(X, tasks=tasks), scores, strict=True):
        fitted = MKMTRLRegressor().fit(X[train], y[train], tasks=tasks[train])
        assert score == fitted.score(X[test], y[test], tasks=tasks[test]) and np.isfinite(score)
    chain = make_pipeline(StandardScaler(), MKMTRLRegressor())
    search = GridSearchCV(chain, {"mkmtrlregressor__C": [0.1, 1.0]}, cv=folds).fit(X, y, tasks=tasks)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_without_routing_the_warning_says_what_to_do():
    X, y, _, tasks = long_data(5)
    with pytest.warns(UserWarning, match=r"give the estimator a task_column \(scikit-learn's cross_val_predict passes"):
        cross_val_score(MKMTRLRegressor(), X, y, cv=FOLDS, params={"tasks": tasks})


def test_tasks_and_weights_are_routed_through_a_pipeline(model, routing):
    X, y, labels, tasks = long_data(6)
    y = labels if isinstance(model, MKMTRLClassifier) else y
    weight = np.random.default_rng(0).uniform(0.5, 2, size=len(X))
    asking = model.set_fit_request(sample_weight=True)
    chain = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), asking)
    chain.fit(X, y, tasks=tasks, sample_weight=weight)
    scaled = StandardScaler().fit_transform(X)
    direct = clone(model).fit(scaled, y, tasks=tasks, sample_weight=weight)
    np.testing.assert_array_equal(chain.predict(X, tasks=tasks), direct.predict(scaled, tasks=tasks))


def test_wide_targets_are_cross_validated(model):
    X, Y = wide_data(7, n=30)
    Y = (np.median(Y, axis=0) < Y).astype(int) if isinstance(model, MKMTRLClassifier) else Y
    predicted = cross_val_predict(model, X, Y, cv=FOLDS)
    assert predicted.shape == Y.shape
    scores = cross_val_score(model, X, Y, cv=FOLDS, error_score="raise")
    for (train, test), score in zip(FOLDS.split(X), scores, strict=True):
        assert score == clone(model).fit(X[train], Y[train]).score(X[test], Y[test])


def test_precomputed_grams_are_sliced_on_both_sides():
    """scikit-learn's splitters take rows and columns of (n, n, K) because of the pairwise tag."""
    X, y, _, _ = long_data(8)
    kernels = gaussian_kernels([0.5, 2.0], relative=False)
    grams = np.stack([kernel.fit(X)(X) for kernel in kernels], axis=2)
    direct = cross_val_score(MKMTRLRegressor(kernels, tol=1e-6), X, y, cv=FOLDS, error_score="raise")
    given = cross_val_score(MKMTRLRegressor("precomputed", tol=1e-6), grams, y, cv=FOLDS, error_score="raise")
    np.testing.assert_allclose(given, direct, atol=1e-4)
    search = GridSearchCV(MKMTRLRegressor("precomputed"), {"C": [0.1, 10.0]}, cv=FOLDS, error_score="raise")
    assert search.fit(grams, y).predict(grams).shape == y.shape


def test_precomputed_grams_with_tasks(routing):
    X, y, _, tasks = long_data(9)
    kernels = gaussian_kernels([0.5, 2.0], relative=False)
    grams = np.stack([kernel.fit(X)(X) for kernel in kernels], axis=2)
    scores = []
    for given, rows in ((kernels, X), ("precomputed", grams)):
        model = MKMTRLRegressor(given, tol=1e-6)
        scores.append(cross_val_score(model, rows, y, cv=FOLDS, params={"tasks": tasks}, error_score="raise"))
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-3)


def test_left_out_tasks_are_unknown_and_named():
    X, y = with_column(MODELS["squared"], 10)
    with pytest.raises(ValueError, match=r"unknown task 0; this model knows 1, 2"):
        cross_val_score(MKMTRLRegressor(task_column=-1), X, y, cv=LEFT_OUT, groups=X[:, -1], error_score="raise")


def test_whole_tasks_are_left_out_and_scored_by_what_all_have_in_common(model):
    X, y = with_column(model, 10)
    model.set_params(task_column=-1, couplings="common", unknown_tasks="common")
    scores = cross_val_score(model, X, y, cv=LEFT_OUT, groups=X[:, -1], error_score="raise")
    assert scores.shape == (3,)
    for (train, test), score in zip(LEFT_OUT.split(X, groups=X[:, -1]), scores, strict=True):
        fold = clone(model).fit(X[train], y[train])
        metric = accuracy_score if isinstance(model, MKMTRLClassifier) else r2_score
        assert score == metric(y[test], fold.predict(X[test]))
        (unknown,) = fold.score_tasks(X[test], y[test])
        assert unknown not in fold.tasks_
    everything = clone(model).fit(X[X[:, -1] > 0], y[X[:, -1] > 0]).score_tasks(X, y)
    assert set(everything) == {0, 1, 2}


@pytest.mark.parametrize("estimator", MODELS.values(), ids=MODELS)
def test_repr_shows_what_was_set(estimator):
    assert repr(clone(estimator).set_params(C=3.0)) == f"{type(estimator).__name__}(C=3.0)"


def test_parameters_can_be_set_and_got(model):
    params = model.get_params()
    assert {"kernels", "C", "mu", "prior", "shrinkage", "min_rank", "normalize", "solver", "tol", "max_iter"} <= set(
        params
    )
    assert model.set_params(**params).get_params() == params
    with pytest.raises(ValueError, match="Invalid parameter 'gamma'"):
        model.set_params(gamma=1)
