"""Arrays of other libraries under `array_api_dispatch`: results are where X is, with the numbers of NumPy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn import config_context

from kernelkin import (
    AverageRegressor,
    KinRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    load_model,
    save_model,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.sin(X @ RNG.normal(size=(3, 4))) + 0.1 * RNG.normal(size=(30, 4))


@pytest.fixture
def dispatch(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=True):
        yield


@pytest.fixture(params=["numpy", "array_api_strict", "torch", "torch-cuda"])
def convert(request, dispatch):
    """From NumPy to arrays of a library."""
    name, _, device = request.param.partition("-")
    xp = pytest.importorskip(name)
    if device and not xp.cuda.is_available():
        pytest.skip("no CUDA device")
    return lambda values: xp.asarray(values, device=device or None)


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


def test_precomputed_gram_matrices(convert):
    grams = (X @ X.T)[:, :, np.newaxis]
    model = MKMTRLRegressor("precomputed", tol=1e-6)
    values = model.fit(grams, Y).predict(grams)
    np.testing.assert_allclose(plain(model.fit(convert(grams), convert(Y)).predict(convert(grams))), values, atol=1e-3)


def test_deviations_are_there_too(convert):
    model = AverageRegressor().fit(convert(X), convert(Y))
    values, deviations = model.predict(convert(X), return_std=True)
    assert type(values) is type(deviations) is type(convert(X))


def test_saved_models_are_in_main_memory(convert, tmp_path):
    model = MKMTRLRegressor(tol=1e-6).fit(convert(X), convert(Y))
    values = plain(model.predict(convert(X)))
    save_model(model, tmp_path / "model.kk")
    for loaded in (load_model(tmp_path / "model.kk").model, pickle.loads(pickle.dumps(model))):
        assert isinstance(loaded.kernel_weights_, np.ndarray)
        np.testing.assert_allclose(loaded.predict(X), values, rtol=1e-9)
        assert type(loaded.predict(convert(X))) is type(convert(X))


def test_without_dispatch_tensors_are_read_as_numpy():
    torch = pytest.importorskip("torch")
    assert isinstance(MKMTRLRegressor().fit(torch.asarray(X), torch.asarray(Y)).predict(torch.asarray(X)), np.ndarray)


@pytest.mark.parametrize("model", [KinRegressor(), MKMTRLClassifier(), MKMTRLRegressor(loss="epsilon_insensitive")])
def test_others_are_refused_by_name(dispatch, model):
    xp = pytest.importorskip("array_api_strict")
    message = rf"^{type(model).__name__} with these parameters does not compute on arrays of array_api_strict: pass"
    with pytest.raises(ValueError, match=message):
        model.fit(xp.asarray(X), xp.asarray(np.sign(Y)))
    assert not model.__sklearn_tags__().array_api_support


def test_a_search_over_a_grid_is_refused(dispatch):
    xp = pytest.importorskip("array_api_strict")
    with pytest.raises(ValueError, match=r"^a search over a grid does not compute on arrays of array_api_strict: pass"):
        MKMTRLRegressorCV().fit(xp.asarray(X), xp.asarray(Y))


def test_two_devices_are_refused(dispatch):
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"^device='cuda', but X is on cpu: leave out one of them$"):
        MKMTRLRegressor(device="cuda").fit(torch.asarray(X), torch.asarray(Y))


def test_the_tag_is_set():
    assert MKMTRLRegressor().__sklearn_tags__().array_api_support
