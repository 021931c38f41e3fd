"""What every model has in common: the forms of data it reads, what it stores, and scikit-learn's own checks."""

import pickle
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.utils.estimator_checks import (
    check_estimator_cloneable,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
)

import kernelkin
from kernelkin.paper import MultiTaskKernelClassifier
from kernelkin.registry import find_model
from scikit_learn_checks import PROBABILITIES, WEIGHTS, check_without_probabilities, run_checks

# Kin has no kernel weights and other attributes: its own tests are in tests/kin.
MODELS = [model for model in kernelkin.all_models() if model.name != "Kin"]
CASES = {estimator.__name__: (model, estimator) for model in MODELS for estimator in model.estimators}
# One estimator of each model, classifiers and regressors in turn.
ONE_EACH = [(model.estimators[::-1] if i % 2 else model.estimators)[0].__name__ for i, model in enumerate(MODELS)]
LONG = [name for name in ONE_EACH if not CASES[name][0].needs_wide]
KERNEL = [name for name in LONG if "kernels" in CASES[name][1]().get_params()]
QUICK = {"n_rounds": 200, "max_iter": 1000, "random_state": 0}
# What scikit-learn's checks may find, and why.
EXPECTED = {
    "TwoStageMKMTRLClassifier": {WEIGHTS: "pairs of rows are drawn at random, and a repeated row is drawn more often"}
}
# One estimator for each way of fitting, predicting and reading targets.
CHECKED = [
    "MKMTRLClassifier",
    "MKMTRLRegressor",
    "MKMTFLRegressor",
    "MTRLClassifier",
    "TwoStageMKMTRLClassifier",
    "LassoRegressor",
    "OLSRegressor",
    "MeanRegressor",
    "FESRegressor",
    "MRCERegressor",
]
VARIANTS = {"MultiTaskKernelClassifier": MultiTaskKernelClassifier()}
CHECKS_OF_PARAMETERS = [
    check_parameters_default_constructible,
    check_no_attributes_set_in_init,
    check_estimator_cloneable,
    check_get_params_invariance,
    check_set_params,
]


def make(name, **parameters):
    """An estimator, with those of the parameters that it has."""
    model = CASES[name][1]()
    known = model.get_params()
    return model.set_params(**{key: value for key, value in (QUICK | parameters).items() if key in known})


def long_data(model, T=3, n=16):
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(T * n, 3)), np.repeat(["a", "b", "c"][:T], n)
    y = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.1 * rng.normal(size=T * n)
    return X, (np.where(y > np.median(y), "yes", "no") if is_classifier(model) else y), tasks


def wide_data(model, T=3, n=24):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    Y = X @ rng.normal(size=(3, T)) + 0.1 * rng.normal(size=(n, T))
    return X, (np.where(Y > 0, 1.0, 0.0) if is_classifier(model) else Y)


def values(model, X, **tasks):
    return model.decision_function(X, **tasks) if is_classifier(model) else model.predict(X, **tasks)


def gaussian(X, Z):
    return np.exp(-((X[:, None] - Z) ** 2).sum(axis=-1))


def test_no_two_models_have_a_name_in_common_and_all_are_found():
    for model in kernelkin.all_models():
        assert find_model(model.name.upper()) is find_model(model.prefix) is model
    with pytest.raises(ValueError, match="unknown model 'SVMTL'; known models: Kin, MK-MTRL, Two-stage MK-MTRL, STL"):
        find_model("SVMTL")


def test_the_docs_describe_every_model_and_its_source():
    page = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8").replace("\n", " ")
    for model in kernelkin.all_models():
        row = f"| {model.name} | {'yes' if model.classifier else 'no'} | {'yes' if model.regressor else 'no'} |"
        assert row in page
        assert ("wide, all labels" in page.split(row)[1].split("|")[0]) == model.needs_wide
        assert model.reference.startswith("scikit-learn") or model.reference in page


def test_every_estimator_is_public_and_of_its_kind():
    for model in kernelkin.all_models():
        assert model.estimators, model.name
        home = kernelkin if model.name == "Kin" else kernelkin.paper
        assert all(getattr(home, estimator.__name__) is estimator for estimator in model.estimators)
        assert model.classifier is None or is_classifier(model.classifier())
        assert model.regressor is None or not is_classifier(model.regressor())
    listed = {estimator.__name__ for model in MODELS for estimator in model.estimators}
    others = {"MultiTaskKernelClassifier", "MultiTaskKernelRegressor"}
    searches = {"MKMTRLClassifierCV", "MKMTRLRegressorCV", "MultiTaskCV"}
    assert set(kernelkin.paper.__all__) - listed == others | searches


@cache
def fitted(name):
    """The estimator on long data."""
    model = make(name)
    X, y, tasks = long_data(model)
    return model.fit(X, y, tasks=tasks)


@pytest.mark.parametrize("name", LONG)
def test_tasks_with_rows_of_their_own(name):
    model = fitted(name)
    X, y, tasks = long_data(model)
    prediction = model.predict(X, tasks=tasks)
    assert prediction.shape == (48,)
    assert model.intercept_.shape == (3,)
    assert set(model.score_tasks(X, y, tasks=tasks)) == {"a", "b", "c"} == set(model.tasks_)
    labelled = np.column_stack([X, np.searchsorted(model.tasks_, tasks)])
    by_column = make(name, task_column=3).fit(labelled, y)
    np.testing.assert_array_equal(by_column.predict(labelled), prediction)
    with pytest.raises(ValueError, match="unknown task 'z'; this model knows 'a', 'b', 'c'"):
        model.predict(X[:1], tasks=["z"])
    if name in KERNEL:
        check_kernel_model(model, X, tasks)


@pytest.mark.parametrize("name", ONE_EACH)
def test_tasks_on_the_same_rows(name):
    model = make(name)
    X, Y = wide_data(model)
    model.fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert model.score(X, Y) > (0.5 if is_classifier(model) else -0.01)
    np.testing.assert_array_equal(values(pickle.loads(pickle.dumps(model)), X), values(model, X))
    np.testing.assert_array_equal(values(clone(model).fit(X, Y), X), values(model, X))
    assert clone(model).fit(X, Y[:, 0]).predict(X).shape == (24,)
    Y[:5, 1] = np.nan
    if CASES[name][0].needs_wide:
        with pytest.raises(ValueError, match=rf"{name} is a multivariate model: .* some labels are missing"):
            model.fit(X, Y)
    else:
        assert model.fit(X, Y).predict(X).shape == Y.shape


def check_kernel_model(model, X, tasks):
    """Weights, relationship, certificate and parts of a model with kernels."""
    K = len(model.kernel_names_)
    assert model.kernel_weights_.shape == (3, K)
    assert (model.kernel_weights_ >= 0).all()
    assert [a.shape for a in model.dual_coef_] == [(16, 1)] * 3
    Omega = model.task_relationship_
    assert Omega.shape == (3, 3)
    np.testing.assert_allclose(Omega, Omega.T, atol=1e-12)
    assert np.trace(Omega) == pytest.approx(1)
    if hasattr(model, "duality_gap_"):
        assert 0 <= model.duality_gap_ <= 0.05 * model.objective_
    if "primal" in model.history_:  # two stages have a history of rounds
        assert model.objective_ == pytest.approx(min(model.history_["primal"]))
        assert model.n_iter_ == len(model.history_["iteration"])
    split = model.predict(X, tasks=tasks, split=True)
    np.testing.assert_allclose(split.parts.sum(axis=1) + split.intercept, values(model, X, tasks=tasks), atol=1e-8)


@pytest.mark.parametrize("name", [name for name in KERNEL if name[:4] in ("MTFL", "TwoS")])
def test_precomputed_grams_are_the_kernels_themselves(name):
    given, there = make(name, kernels="precomputed", tol=1e-6), make(name, kernels=["linear", gaussian], tol=1e-6)
    X, y, tasks = long_data(given)
    stack = np.stack([X @ X.T, gaussian(X, X)], axis=2)
    given.fit(stack, y, tasks=tasks)
    there.fit(X, y, tasks=tasks)
    np.testing.assert_allclose(values(given, stack, tasks=tasks), values(there, X, tasks=tasks), atol=1e-3)


@pytest.mark.filterwarnings("ignore:no tasks were given")
@pytest.mark.parametrize("name", [*CHECKED, *VARIANTS])
def test_scikit_learn_checks(name):
    model = make(name) if name in CASES else VARIANTS[name]
    expected = EXPECTED.get(name, {})
    if is_classifier(model):
        run_checks(model, {**PROBABILITIES, **expected})
        check_without_probabilities(model, weights=WEIGHTS not in expected)
    else:
        run_checks(model, expected)


def fault(check, name):
    """What a check finds; None where it passes."""
    try:
        check(name, make(name))
    except Exception as error:
        return repr(error)
    return None


def test_scikit_learn_checks_of_the_parameters_of_every_model():
    faults = {(name, check.__name__): fault(check, name) for name in CASES for check in CHECKS_OF_PARAMETERS}
    assert not {where: what for where, what in faults.items() if what is not None}
