"""Arrays of other libraries under `array_api_dispatch`: results are where X is, with the numbers of NumPy."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_array_api_input

import kernelkin
from kernelkin import (
    AverageRegressor,
    KinClassifier,
    KinRegressor,
    MKMTRLClassifier,
    MKMTRLClassifierCV,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    STLClassifier,
    load_model,
    save_model,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.sin(X @ RNG.normal(size=(3, 4))) + 0.1 * RNG.normal(size=(30, 4))
LABELS = np.column_stack([np.sign(Y[:, :2]).astype(int), np.digitize(Y[:, 2], [-0.4, 0.4])])
CLASSIFIERS = [
    MKMTRLClassifier(tol=1e-5),
    MKMTRLClassifier(loss="squared", tol=1e-6),
    STLClassifier(tol=1e-6),
]
# Models that say that they compute on arrays of other libraries.
SUPPORTED = [
    name
    for name in kernelkin.__all__
    if name.endswith(("Classifier", "Regressor")) and getattr(kernelkin, name)().__sklearn_tags__().array_api_support
]


def plain(values):
    return values.cpu().numpy() if hasattr(values, "cpu") else np.asarray(values)


@pytest.mark.parametrize(
    "model",
    [
        MKMTRLRegressor(tol=1e-6),
        MKMTRLRegressor(["linear", "rbf"], couplings="common", tol=1e-6),
        AverageRegressor(tol=1e-8),
        MKMTRLRegressorCV(["linear", "rbf"], per_task=True, tol=1e-8),
    ],
    ids=lambda model: f"{type(model).__name__}-{getattr(model, 'couplings', None)}",
)
def test_numbers_are_those_of_numpy_and_stay_where_x_is(convert, model):
    expected = model.fit(X, Y)
    values, weights = expected.predict(X[:7]), expected.kernel_weights_
    tensors = model.fit(convert(X), convert(Y))
    found = tensors.predict(convert(X[:7]))
    assert type(found) is type(tensors.kernel_weights_) is type(convert(X))
    assert found.device == tensors.intercept_.device == convert(X).device
    np.testing.assert_allclose(plain(found), values, atol=1e-3)
    np.testing.assert_allclose(plain(tensors.kernel_weights_), weights, atol=1e-2 * weights.max())
    assert tensors.score(convert(X), convert(Y)) == pytest.approx(expected.score(X, Y), abs=1e-3)
    # Rows in main memory are predicted there.
    assert isinstance(tensors.predict(X[:7]), np.ndarray)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: f"{type(model).__name__}-{model.loss}")
def test_classifiers_decide_where_x_is(convert, model):
    expected = model.fit(X, LABELS)
    wanted = [getattr(expected, name)(X[:9]) for name in ("decision_function", "predict_proba", "predict")]
    weights = expected.kernel_weights_
    tensors = model.fit(convert(X), convert(LABELS))
    found = [getattr(tensors, name)(convert(X[:9])) for name in ("decision_function", "predict_proba", "predict")]
    assert all(type(each) is type(convert(X)) and each.device == convert(X).device for each in found)
    assert tensors.kernel_weights_.device == tensors.dual_coef_[2].device == convert(X).device
    np.testing.assert_allclose(plain(tensors.kernel_weights_), weights, atol=2e-2 * weights.max())
    np.testing.assert_allclose(plain(found[0]), wanted[0], atol=3e-2)
    np.testing.assert_allclose(plain(found[1]), wanted[1], atol=2e-2)
    decided = np.abs(np.sort(wanted[0], axis=-1)[..., -1]) > 0.1
    np.testing.assert_array_equal(plain(found[2])[decided], wanted[2][decided])


def test_one_task_of_several_classes(convert):
    y = np.array([3, 5, 8])[LABELS[:, 2]]
    expected = MKMTRLClassifier(tol=1e-5).fit(X, y)
    values = expected.decision_function(X)
    tensors = MKMTRLClassifier(tol=1e-5).fit(convert(X), convert(y))
    assert values.shape == (30, 3)
    np.testing.assert_allclose(plain(tensors.decision_function(convert(X))), values, atol=3e-2)
    assert set(plain(tensors.predict(convert(X))).tolist()) == {3, 5, 8}


def test_names_of_classes_stay_in_numpy(convert):
    names = np.array(["no", "yes"])[(LABELS[:, :2] > 0).astype(int)]
    model = MKMTRLClassifier().fit(convert(X), names)
    assert isinstance(model.predict(convert(X)), np.ndarray)
    assert type(model.decision_function(convert(X))) is type(convert(X))


@pytest.mark.filterwarnings("ignore:no tasks were given")
@pytest.mark.parametrize("name", SUPPORTED)
@pytest.mark.parametrize(("library", "where"), [("array_api_strict", None), ("torch", "cpu"), ("torch", "cuda")])
def test_scikit_learn_checks(monkeypatch, name, library, where):
    if where == "cuda" and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("no CUDA device")
    pytest.importorskip(library)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    # Labels of tasks and names of kernels are arrays of NumPy, which the check does not expect.
    names = {attribute: _kept_apart(attribute) for attribute in ("tasks_", "kernel_names_")}
    checked = type(name, (getattr(kernelkin, name),), names)
    check_array_api_input(name, checked(), library, device_name=where)


def _kept_apart(attribute):
    """A property whose value is in a dict, and not an attribute of its own."""

    def store(model, value):
        vars(model).setdefault("kept_apart", {})[attribute] = value

    return property(lambda model: vars(model)["kept_apart"][attribute], store)


def test_precomputed_gram_matrices(convert):
    grams = (X @ X.T)[:, :, np.newaxis]
    model = MKMTRLRegressor("precomputed", tol=1e-6)
    values = model.fit(grams, Y).predict(grams)
    np.testing.assert_allclose(plain(model.fit(convert(grams), convert(Y)).predict(convert(grams))), values, atol=1e-3)


def test_deviations_are_there_too(convert):
    model = AverageRegressor().fit(convert(X), convert(Y))
    values, deviations = model.predict(convert(X), return_std=True)
    assert type(values) is type(deviations) is type(convert(X))


@pytest.mark.parametrize(
    ("model", "targets"),
    [
        (MKMTRLRegressor(tol=1e-6), Y),
        (MKMTRLRegressorCV(["linear", "rbf"], per_task=True), np.where(Y > 0.9, np.nan, Y)),
        (MKMTRLClassifier(), LABELS),
    ],
    ids=["regressor", "choice-for-each-task", "classifier"],
)
def test_saved_models_are_in_main_memory(convert, tmp_path, model, targets):
    fitted = model.fit(convert(X), convert(targets))
    values = plain(fitted.predict(convert(X)))
    save_model(fitted, tmp_path / "model.kk")
    for loaded in (load_model(tmp_path / "model.kk").model, pickle.loads(pickle.dumps(fitted))):
        assert isinstance(loaded.kernel_weights_, np.ndarray)
        np.testing.assert_allclose(loaded.predict(X), values, rtol=1e-9)
        assert type(loaded.predict(convert(X))) is type(convert(X))


@pytest.mark.parametrize(
    ("model", "targets"),
    [(MKMTRLRegressorCV(["linear", "rbf"], per_task=True), Y), (MKMTRLClassifier(), LABELS[:, :2])],
    ids=["choice-for-each-task", "classifier"],
)
def test_saved_models_predict_without_their_device(device, tmp_path, monkeypatch, model, targets):
    model.set_params(device=device).fit(X, targets)
    values = model.predict(X)
    save_model(model, tmp_path / "model.kk")
    loaded = load_model(tmp_path / "model.kk").model
    np.testing.assert_allclose(loaded.predict(X), values, rtol=1e-9)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=rf'^device=\'{device}\' needs torch: pip install "kernelkin\[torch\]"$'):
        loaded.predict(X)
    loaded.set_params(device=None)
    np.testing.assert_allclose(loaded.predict(X), values, rtol=1e-9)


def test_without_dispatch_tensors_are_read_as_numpy():
    torch = pytest.importorskip("torch")
    assert isinstance(MKMTRLRegressor().fit(torch.asarray(X), torch.asarray(Y)).predict(torch.asarray(X)), np.ndarray)


def test_another_loss_is_refused_by_name(dispatch):
    xp, model = pytest.importorskip("array_api_strict"), MKMTRLRegressor(loss="epsilon_insensitive")
    message = rf"^{type(model).__name__} with these parameters does not compute on arrays of array_api_strict: pass"
    with pytest.raises(ValueError, match=message):
        model.fit(xp.asarray(X), xp.asarray(np.sign(Y)))
    assert not model.__sklearn_tags__().array_api_support


@pytest.mark.parametrize(
    ("model", "targets"),
    [
        (MKMTRLRegressorCV(["linear", "rbf"], grid={"C": [0.1, 1.0]}, cv=2, random_state=0), Y),
        (MKMTRLRegressorCV(["linear", "rbf"], grid={"C": [0.1, 1.0]}, cv=2, random_state=0), Y[:, 0]),
        (MKMTRLClassifierCV(["linear", "rbf"], grid={"C": [0.1, 1.0]}, cv=2, random_state=0), LABELS[:, :2]),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else f"{value.ndim}d",
)
def test_searches_choose_what_they_choose_with_numpy(convert, model, targets):
    model.fit(X, targets)
    values, chosen = model.predict(X[:7]), model.best_params_
    tensors = model.fit(convert(X), convert(targets))
    found = tensors.predict(convert(X[:7]))
    assert type(found) is type(tensors.kernel_weights_) is type(convert(X))
    assert found.device == tensors.kernel_weights_.device == convert(X).device
    assert tensors.best_params_ == chosen
    np.testing.assert_allclose(plain(found), values, atol=2e-2)
    assert isinstance(pickle.loads(pickle.dumps(tensors)).predict(X[:7]), np.ndarray)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_kin_computes_in_numpy_and_answers_in_the_library_of_x(dispatch, library):
    xp = pytest.importorskip(library)
    tasks, few = np.repeat(np.arange(3), 10), (xp.asarray(X[:7]), np.arange(7) % 3)
    model = KinRegressor(cv=2, random_state=0).fit(X, Y[:, 0], tasks=tasks)
    expected = model.predict_interval(X[:7], few[1])
    model.fit(xp.asarray(X), xp.asarray(Y[:, 0]), tasks=tasks)
    found = [model.predict(*few), *model.predict(*few, return_std=True), model.predict_interval(*few)]
    np.testing.assert_array_equal(plain(found[-1]), expected)
    classifier = KinClassifier(cv=2, random_state=0).fit(xp.asarray(X), xp.asarray(LABELS[:, 0]), tasks=tasks)
    found += [getattr(classifier, name)(*few) for name in ("predict", "predict_proba", "decision_function")]
    assert {type(values) for values in found} == {type(few[0])}
    assert isinstance(model.predict(X[:7], few[1]), np.ndarray)


def test_two_devices_are_refused(dispatch):
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"^device='cuda', but X is on cpu: leave out one of them$"):
        MKMTRLRegressor(device="cuda").fit(torch.asarray(X), torch.asarray(Y))


def test_tasks_with_rows_of_their_own_are_refused_on_a_device(dispatch):
    torch = pytest.importorskip("torch")
    message = (
        r"^device='cpu' is for wide data \(y with a column for each task\) with the squared loss, or the hinge loss"
    )
    with pytest.raises(ValueError, match=message):
        MKMTRLClassifier().fit(torch.asarray(X), torch.asarray(LABELS[:, 0]), tasks=np.repeat([0, 1], 15))


def test_the_tag_is_set():
    assert {"MKMTRLRegressor", "MKMTRLClassifier", "IMKLClassifier", "STLRegressor"} < set(SUPPORTED)
