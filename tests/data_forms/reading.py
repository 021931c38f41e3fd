"""A bare estimator and small data, to test what is read without any model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from kernelkin.data.forms import Queries, TaskData
from kernelkin.estimators import MultiTaskEstimator

N = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = RNG.normal(size=N)
CLASSES = np.tile(["no", "yes", "yes"], 4)
TASKS = np.repeat([30, 10, 20], 4)


class Reader(MultiTaskEstimator):
    """An estimator that only reads."""

    functions_ = None

    def __init__(self, task_column: Any = None, precomputed: bool = False):
        self.task_column, self.precomputed = task_column, precomputed

    def specification(self):
        raise NotImplementedError

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.precomputed
        return tags


class ReaderOfClasses(ClassifierMixin, Reader):
    pass


def make_reader(classification: bool, **parameters) -> Reader:
    return (ReaderOfClasses if classification else Reader)(**parameters)


def read(X=X, y=Y, tasks=None, sample_weight=None, classification=False, **parameters) -> TaskData:
    return make_reader(classification, **parameters).training_data(X, y, tasks, sample_weight)


def fitted(X=X, y=Y, tasks=None, classification=False, **parameters) -> Reader:
    """A reader that has seen data, as far as queries need it."""
    reader = make_reader(classification, **parameters)
    data = reader.training_data(X, y, tasks)
    reader.tasks_, reader.data_form_ = data.labels, data.form
    reader.kernel_names_ = ["kernel 0"] * (data.X.shape[2] if data.X.ndim == 3 else 1)
    return reader


def query(reader: Reader, X=X, tasks=None, allow_unknown=False) -> Queries:
    reader.unknown_tasks = "common" if allow_unknown else "error"
    return reader.read_queries(X, tasks)


def put(array: Any, where: Any, value: Any, dtype: Any = None) -> np.ndarray:
    """A copy with another value at one place."""
    out = np.array(array, dtype=dtype)
    out[where] = value
    return out


def assert_same(data: TaskData, expected: TaskData) -> None:
    """The same rows, targets and weights, to the last bit; labels may have other names."""
    assert (data.form, data.n_tasks) == (expected.form, expected.n_tasks)
    assert data.X.dtype == expected.X.dtype
    np.testing.assert_array_equal(data.X, expected.X)
    np.testing.assert_array_equal(data.sample_weight, expected.sample_weight)
    for left, right in zip([*data.rows, *data.y], [*expected.rows, *expected.y], strict=True):
        np.testing.assert_array_equal(left, right)
