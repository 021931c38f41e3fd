import os
import subprocess
import sys

import numpy as np

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels, linear_kernels
from kernelkin.storage.cache import fingerprint

X = np.random.default_rng(0).normal(size=(24, 2))


def test_equal_in_every_process():
    code = (
        "import numpy as np\nfrom kernelkin import MKMTRLRegressor, gaussian_kernels\n"
        "from kernelkin.storage.cache import fingerprint\n"
        "print(fingerprint(MKMTRLRegressor(gaussian_kernels()), {'b', 'a', 'c'}, np.random.RandomState(0)))"
    )
    other = {**os.environ, "PYTHONHASHSEED": "1"}
    found = subprocess.run([sys.executable, "-c", code], env=other, capture_output=True, text=True, check=True).stdout
    here = fingerprint(MKMTRLRegressor(gaussian_kernels()), {"b", "a", "c"}, np.random.RandomState(0))
    assert found == here + "\n"


def test_different_for_different_inputs():
    things = [
        None, True, 1, 1.0, "1", b"1", np.int64(1), np.float64(1), np.float32(1), [1], (1,), {1}, frozenset({1}),
        {1: 1}, [[1]], [1, None], [None, 1], np.array([1]), np.array([1.0]), np.array([[1]]), np.array(1), "",
        np.array(["1"]), np.array([1], dtype=object), np.array(["1"], dtype=object), np.zeros(0), np.zeros((0, 1)),
        range(1), range(2), slice(1), slice(2), 0.1 + 0.2, 0.3, -0.0, 0.0, float("nan"), float("inf"), [], (), {},
        ["ab", "c"], ["a", "bc"], np.array([1], dtype=">i8"), np.random.RandomState(0), np.random.RandomState(1),
        np.random.default_rng(0), np.random.default_rng(1), MKMTRLRegressor, MKMTRLClassifier, MKMTRLRegressor(),
        MKMTRLClassifier(), MKMTRLRegressor(C=2.0), MKMTRLRegressor(mu=2.0), linear_kernels(), gaussian_kernels(),
    ]  # fmt: skip
    assert len({fingerprint(thing) for thing in things}) == len(things)


def test_equal_for_equal_inputs():
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint(X) == fingerprint(np.asfortranarray(X)) == fingerprint(X[::-1][::-1])
    assert fingerprint([X, X]) == fingerprint([X, X.copy()])
