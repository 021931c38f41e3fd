"""Precomputed Gram matrices checked and scaled on a device, against main memory."""

from __future__ import annotations

import numpy as np
import pytest
from grams.rows import build_grams

from kernelkin import MKMTRLRegressor
from kernelkin.paper.grams.build import device_grams

RNG = np.random.default_rng(0)
N = 12
ROOTS = RNG.normal(size=(3, N, N))
X = np.moveaxis(np.array([root @ root.T for root in ROOTS]), 0, 2)
Y = RNG.normal(size=(N, 4))


def read(X, weight=None):
    return MKMTRLRegressor("precomputed").training_data(X, Y, None, weight)


@pytest.mark.parametrize(("normalize", "dtype"), [("trace", np.float32), (None, np.float64)])
def test_they_are_scaled_as_in_main_memory(arrays, normalize, dtype):
    given = np.ascontiguousarray(X, dtype=dtype)
    before, data = given.copy(), read(given, np.linspace(0.5, 2.0, N))
    grams, bank = device_grams(data, normalize, arrays)
    expected, known = build_grams(data, None, normalize)
    np.testing.assert_allclose(grams.stack.values, expected.stack.values, rtol=1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_array_equal(grams.stack.values, np.swapaxes(grams.stack.values, 1, 2))
    np.testing.assert_allclose(bank.scalings[0].factor, known.scalings[0].factor, rtol=1e-6)
    np.testing.assert_array_equal(given, before)


def test_rounding_below_zero_is_clipped(arrays):
    thin = np.outer(ROOTS[0, 0], ROOTS[0, 0]) - 1e-9 * np.eye(N)
    grams, _ = device_grams(read(thin), None, arrays)
    assert np.linalg.eigvalsh(grams.stack.values[0])[0] >= -1e-13


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda G: G.__setitem__((0, 1), G[0, 1] + 1.0), r"^kernel 'kernel 1' is not symmetric"),
        (lambda G: G.__setitem__((0, 0), -5.0), r"^kernel 'kernel 1' is not positive semi-definite"),
        (lambda G: G.fill(0.0), r"^kernel 'kernel 1' is zero on all training rows$"),
    ],
)
def test_what_is_no_kernel_is_refused(arrays, change, message):
    given = X.copy()
    change(given[:, :, 1])
    with pytest.raises(ValueError, match=message):
        device_grams(read(given), "trace", arrays)


def test_a_fit_and_its_predictions_are_those_of_main_memory(device):
    plain, tensors = (MKMTRLRegressor("precomputed", device=d, tol=1e-6).fit(X, Y) for d in (None, device))
    np.testing.assert_allclose(tensors.objective_, plain.objective_, rtol=2e-6)
    queries = X[::-1][:5]
    np.testing.assert_allclose(tensors.predict(queries), plain.predict(queries), atol=1e-3)
    values = tensors.predict(queries)
    tensors.set_params(device=None)
    np.testing.assert_allclose(tensors.predict(queries), values, rtol=1e-9)
