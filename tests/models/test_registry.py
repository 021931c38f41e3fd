"""What every model promises: the same data forms, errors and fitted attributes, whichever it is."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.utils.estimator_checks import check_estimator

import kernelkin
from kernelkin.registry import find_model, models

CASES = {estimator.__name__: (model, estimator) for model in models() for estimator in model.estimators}
LONG = {name: case for name, case in CASES.items() if not case[0].needs_wide}
KERNEL = {name: case for name, case in LONG.items() if "kernels" in case[1]().get_params()}
QUICK = {"n_rounds": 200, "max_iter": 1000, "random_state": 0}
WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
# What scikit-learn's checks may find, and why.
EXPECTED = {
    "TwoStageMKMTRLClassifier": {WEIGHTS: "pairs of rows are drawn at random, and a repeated row is drawn more often"},
    "TwoStageMKMTRLRegressor": {WEIGHTS: "pairs of rows are drawn at random, and a repeated row is drawn more often"},
}


def make(estimator, **parameters):
    """An estimator, with those of the parameters that it has."""
    model = estimator()
    known = model.get_params()
    return model.set_params(**{name: value for name, value in (QUICK | parameters).items() if name in known})


def long_data(estimator, seed=0, T=3, n=16):
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(T * n, 3)), np.repeat(["a", "b", "c"][:T], n)
    y = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.1 * rng.normal(size=T * n)
    return X, (np.where(y > np.median(y), "yes", "no") if is_classifier(estimator()) else y), tasks


def wide_data(estimator, seed=0, T=3, n=24):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    Y = X @ rng.normal(size=(3, T)) + 0.1 * rng.normal(size=(n, T))
    return X, (np.where(Y > 0, 1, 0) if is_classifier(estimator()) else Y)


def values(model, X, **tasks):
    return model.decision_function(X, **tasks) if is_classifier(model) else model.predict(X, **tasks)


@pytest.fixture(params=CASES)
def estimator(request):
    return CASES[request.param][1]


@pytest.fixture(params=LONG)
def long_estimator(request):
    return LONG[request.param][1]


@pytest.fixture(params=KERNEL)
def kernel_estimator(request):
    return KERNEL[request.param][1]


def test_every_model_is_described_once():
    names = [key.lower() for model in models() for key in (model.name, *model.aliases)]
    assert len(names) == len(set(names))
    for model in models():
        assert model.estimators, model.name
        assert model.reference
        assert "\n" not in model.description
        assert 20 < len(model.description) < 100
        assert find_model(model.name.upper()) is model
    with pytest.raises(ValueError, match="no model is named 'SVMTL'"):
        find_model("SVMTL")


def test_every_model_of_the_paper_is_there():
    paper = {"STL", "AVG", "IMKL", "IKL", "MK-MTFL", "MKL-SA", "MTFL", "MTRL", "MRCE", "FES", "Lasso", "OLS", "MK-MTRL"}
    assert paper <= {model.name for model in models()}


def test_the_docs_name_every_model_and_its_source():
    page = (Path(__file__).parents[1] / "docs" / "models.md").read_text(encoding="utf-8").replace("\n", " ")
    for model in models():
        row = f"| {model.name} | {'yes' if model.classifier else 'no'} | {'yes' if model.regressor else 'no'} |"
        assert row in page
        assert ("wide, all labels" in page.split(row)[1].split("|")[0]) == model.needs_wide
        assert model.reference.startswith("scikit-learn") or model.reference in page


def test_every_estimator_is_public_and_of_its_kind():
    for model in models():
        for estimator in model.estimators:
            assert getattr(kernelkin, estimator.__name__) is estimator
            assert estimator.__doc__
        assert model.classifier is None or is_classifier(model.classifier())
        assert model.regressor is None or not is_classifier(model.regressor())
    from kernelkin import baselines

    listed = {estimator.__name__ for model in models() for estimator in model.estimators}
    assert set(baselines.__all__) <= listed


def test_every_parameter_is_constrained_and_no_other(estimator):
    assert set(estimator._parameter_constraints) == set(estimator().get_params())


def test_long_data(long_estimator):
    X, y, tasks = long_data(long_estimator)
    model = make(long_estimator).fit(X, y, tasks=tasks)
    assert model.tasks_.tolist() == ["a", "b", "c"]
    assert model.predict(X, tasks=tasks).shape == (48,)
    assert set(model.score_tasks(X, y, tasks=tasks)) == {"a", "b", "c"}
    assert model.score(X, y, tasks=tasks) == pytest.approx(np.mean(list(model.score_tasks(X, y, tasks=tasks).values())))


def test_a_task_column_is_the_same_as_tasks(long_estimator):
    X, y, tasks = long_data(long_estimator)
    codes = np.searchsorted(["a", "b", "c"], tasks)
    model = make(long_estimator).fit(X, y, tasks=codes)
    column = make(long_estimator, task_column=3).fit(np.column_stack([X, codes]), y)
    np.testing.assert_array_equal(column.predict(np.column_stack([X, codes])), model.predict(X, tasks=codes))


def test_wide_data(estimator):
    X, Y = wide_data(estimator)
    model = make(estimator).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert model.score(X, Y) > (0.5 if is_classifier(model) else -0.01)


def test_missing_labels(long_estimator):
    X, Y = wide_data(long_estimator)
    Y = Y.astype(float)
    Y[:5, 1] = np.nan
    assert make(long_estimator).fit(X, Y).predict(X).shape == Y.shape


def test_single_task(estimator):
    X, y, _ = long_data(estimator, T=1, n=40)
    assert make(estimator).fit(X, y).predict(X).shape == (40,)


def test_models_that_need_wide_data_say_so():
    for model, estimator in CASES.values():
        if model.needs_wide:
            X, y, tasks = long_data(estimator)
            with pytest.raises(ValueError, match=rf"{estimator.__name__} is a multivariate model"):
                estimator().fit(X, y, tasks=tasks)


def test_an_unknown_task_is_named(long_estimator):
    X, y, tasks = long_data(long_estimator)
    model = make(long_estimator).fit(X, y, tasks=tasks)
    with pytest.raises(ValueError, match="unknown task 'z'; this model knows 'a', 'b', 'c'"):
        model.predict(X[:1], tasks=["z"])
    with pytest.raises(ValueError, match="needs the task of each row"):
        model.predict(X)


def test_clone_and_pickle(estimator):
    X, Y = wide_data(estimator)
    model = make(estimator).fit(X, Y)
    np.testing.assert_array_equal(values(clone(model).fit(X, Y), X), values(model, X))
    np.testing.assert_array_equal(values(pickle.loads(pickle.dumps(model)), X), values(model, X))


def test_the_number_of_threads_changes_nothing(kernel_estimator):
    X, y, tasks = long_data(kernel_estimator)
    one, two = (make(kernel_estimator, n_jobs=n_jobs).fit(X, y, tasks=tasks) for n_jobs in (1, 2))
    np.testing.assert_array_equal(values(one, X, tasks=tasks), values(two, X, tasks=tasks))


def test_fitted_attributes(long_estimator):
    """Kernel models have weights, relationship, objective and history; all have tasks and intercepts."""
    X, y, tasks = long_data(long_estimator)
    model = make(long_estimator).fit(X, y, tasks=tasks)
    assert model.intercept_.shape == (3,)
    if not hasattr(model, "kernels"):
        return
    K = len(model.kernel_names_)
    assert model.kernel_weights_.shape == (3, K)
    assert (model.kernel_weights_ >= 0).all()
    assert [a.shape for a in model.dual_coef_] == [(16, 1)] * 3
    assert model.task_relationship_.shape == (3, 3)
    np.testing.assert_allclose(model.task_relationship_, model.task_relationship_.T, atol=1e-12)
    assert np.trace(model.task_relationship_) == pytest.approx(1)
    if hasattr(model, "duality_gap_"):
        assert 0 <= model.duality_gap_ <= 0.05 * model.objective_
    if "primal" in model.history_:  # two stages have a history of rounds
        assert model.objective_ == pytest.approx(min(model.history_["primal"]))
        assert model.n_iter_ == len(model.history_["iteration"])


def test_what_each_kernel_adds_sums_to_the_prediction(kernel_estimator):
    X, y, tasks = long_data(kernel_estimator)
    model = make(kernel_estimator).fit(X, y, tasks=tasks)
    split = model.predict(X, tasks=tasks, split=True)
    np.testing.assert_allclose(split.parts.sum(axis=1) + split.intercept, values(model, X, tasks=tasks), atol=1e-8)


def test_precomputed_kernels(kernel_estimator):
    X, y, tasks = long_data(kernel_estimator)
    stack = np.stack([X @ X.T, np.exp(-((X[:, None] - X) ** 2).sum(axis=-1))], axis=2)
    model = make(kernel_estimator, kernels="precomputed", tol=1e-6).fit(stack, y, tasks=tasks)
    there = make(kernel_estimator, kernels=["linear", gaussian], tol=1e-6).fit(X, y, tasks=tasks)
    if "STL" in kernel_estimator.__name__:
        assert model.kernel_weights_.tolist() == [[1.0, 0.0]] * 3
    np.testing.assert_allclose(values(model, stack, tasks=tasks), values(there, X, tasks=tasks), atol=1e-3)


def gaussian(X, Z):
    return np.exp(-((X[:, None] - Z) ** 2).sum(axis=-1))


def test_scikit_learn_accepts_it(estimator):
    check_estimator(make(estimator), expected_failed_checks=EXPECTED.get(estimator.__name__), on_skip=None)
