"""What can be wrong with data and what can merely be odd about them: each as a change to clean data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from robustness.estimators import CLASSIFIERS, ESTIMATORS, KERNEL, LONG, REGRESSORS, TASKS, Data, N

ALL = set(ESTIMATORS)
SEARCHES = {name for name in ALL if "CV" in name}
MACHINES = KERNEL | SEARCHES
Change = Callable[[Data], Data]


def put(array: Any, where: Any, value: Any, dtype: Any = None) -> np.ndarray:
    """A copy with another value at one place."""
    out = np.array(array, dtype=dtype)
    out[where] = value
    return out


def on_X(change: Callable[[np.ndarray], Any]) -> Change:
    return lambda data: data._replace(X=change(data.X))


def on_y(change: Callable[[np.ndarray], Any]) -> Change:
    return lambda data: data._replace(y=change(data.y))


def on_tasks(change: Callable[[np.ndarray], Any]) -> Change:
    """Models that need wide data get labels to spoil, too: bad ones are refused before their number is."""
    return lambda data: data._replace(tasks=change(np.resize(TASKS, N) if data.tasks is None else data.tasks))


def on_weight(change: Callable[[np.ndarray], Any]) -> Change:
    return lambda data: data._replace(sample_weight=change(np.ones(N)))


def all_of(change: Callable[[np.ndarray], Any]) -> Change:
    return lambda data: Data(*(None if part is None else change(part) for part in data))


class Refused(NamedTuple):
    """A fault, the words that its error must have, and whom it concerns."""

    change: Change
    message: str
    among: set[str] = ALL


NUMBERS = np.arange(N) // 12
FAULTS = {
    "X of one dimension": Refused(on_X(lambda X: X[:, 0]), "Expected 2D array, got 1D array"),
    "X a number": Refused(on_X(lambda X: 3.0), "Expected 2D array, got scalar"),
    "X None": Refused(on_X(lambda X: None), "Expected 2D array, got scalar array instead:\narray=None"),
    "X of three dimensions": Refused(on_X(lambda X: X[:, :, None]), "X: Found array with dim 3"),
    "X ragged": Refused(on_X(lambda X: [[1.0, 2.0]] * (N - 1) + [[1.0]]), "X is not an array: .*inhomogeneous"),
    "X without rows": Refused(all_of(lambda part: part[:0]), r"X: Found array with 0 sample\(s\)"),
    "X without columns": Refused(on_X(lambda X: X[:, :0]), r"X: Found array with 0 feature\(s\)"),
    "X with NaN": Refused(on_X(lambda X: put(X, (3, 1), np.nan)), "X, column 1: Input X contains NaN"),
    "X with inf": Refused(on_X(lambda X: put(X, (3, 1), -np.inf)), "X, column 1: Input X contains infinity"),
    "X with None": Refused(on_X(lambda X: put(X, (3, 1), None, object)), "X, column 1: Input X contains NaN"),
    "X with a word": Refused(on_X(lambda X: put(X, (3, 1), "tall", object)), "X, column 1: could not convert .*'tall'"),
    "X with a dict": Refused(on_X(lambda X: put(X, (3, 1), {}, object)), "X, column 1: float.. argument must be"),
    "X with a column of words": Refused(
        on_X(lambda X: pd.DataFrame(X, columns=list("abc")).assign(size="tall")),
        "X, column 'size': could not convert .*'tall'",
    ),
    "X complex": Refused(on_X(lambda X: X + 1j), "X: Complex data not supported"),
    "X sparse": Refused(on_X(csr_array), "Sparse data was passed for X, but dense data is required"),
    "X too large": Refused(on_X(lambda X: X * 1e160), r"X has values of size 2.33e\+160; .*rescale X"),
    "X too small": Refused(on_X(lambda X: X * 1e-160), "X has no value above 2.33e-160 in size; .*rescale X"),
    "X too large in float32": Refused(
        on_X(lambda X: (X * 1e20).astype(np.float32)), r"X has values of size 2.33e\+20; .*rescale X"
    ),
    "y None": Refused(on_y(lambda y: None), "requires y to be passed, but the target y is None"),
    "y too short": Refused(on_y(lambda y: y[:-1]), "X has 36 rows, but y has 35"),
    "y of three dimensions": Refused(on_y(lambda y: np.zeros((N, 2, 2))), r"y must have shape .*, not \(36, 2, 2\)"),
    "y a number": Refused(on_y(lambda y: 3), r"y must have shape .*, not \(\)"),
    "y ragged": Refused(on_y(lambda y: [[1.0, 2.0]] * (N - 1) + [[1.0]]), "y is not an array: .*inhomogeneous"),
    "y wide beside tasks": Refused(on_y(lambda y: np.column_stack([y, y])), "y has 2 columns and the task", LONG),
    "y with NaN": Refused(on_y(lambda y: put(y, 3, np.nan, object)), "Input y contains NaN", LONG),
    "y with None": Refused(on_y(lambda y: put(y, 3, None, object)), "Input y contains NaN", LONG),
    "y a list with NaN": Refused(on_y(lambda y: [np.nan, *y[1:].tolist()]), "Input y contains NaN", LONG),
    "y with inf": Refused(on_y(lambda y: put(y, 3, np.inf)), "Input y contains infinity", REGRESSORS),
    "y of classes with inf": Refused(
        on_y(lambda y: put(y == "yes", 3, np.inf, float)), "Input y contains NaN or infinity", CLASSIFIERS
    ),
    "y complex": Refused(on_y(lambda y: np.full(y.shape, 1j)), "Complex data not supported"),
    "y sparse": Refused(on_y(lambda y: csr_array(np.ones((N, 1)))), "Sparse data was passed for y"),
    "y of words": Refused(on_y(lambda y: np.full(y.shape, "tall")), "y holds text, not numbers", REGRESSORS),
    "y of real numbers": Refused(on_y(lambda y: np.arange(N) + 0.5), "Unknown label type: continuous", CLASSIFIERS),
    "y too large": Refused(on_y(lambda y: y * 1e150), r"y has values of size .*e\+150; .*rescale y", REGRESSORS),
    "y too small": Refused(on_y(lambda y: y * 1e-155), "y has no value above .*e-155 in size; .*rescale", REGRESSORS),
    "mixed classes": Refused(on_y(lambda y: put(y, 3, 1, object)), "classes in y are of mixed types: int", CLASSIFIERS),
    "a list of mixed classes": Refused(
        on_y(lambda y: [1, *y[1:].tolist()]), "the classes in y are of mixed types: int, str", CLASSIFIERS
    ),
    "one class": Refused(on_y(lambda y: np.full_like(y, "no")), r"task 'ada' has one class only \('no'\)", CLASSIFIERS),
    "one row": Refused(all_of(lambda part: part[:1]), r"task ('ada'|0) has one sample only"),
    "a task of one row": Refused(on_tasks(lambda tasks: put(NUMBERS, 0, 7)), "task 7 has one sample only", LONG),
    "tasks too short": Refused(on_tasks(lambda tasks: tasks[:-1]), "X has 36 rows, but tasks has 35", LONG),
    "tasks of two dimensions": Refused(on_tasks(lambda tasks: np.zeros((N, 2))), r"tasks must be one label .*\(36, 2"),
    "tasks a word": Refused(on_tasks(lambda tasks: "ada"), r"tasks must be one label for each row, not .* \(\)"),
    "tasks with NaN": Refused(on_tasks(lambda tasks: put(NUMBERS, 3, np.nan, float)), "task of row 3 is NaN"),
    "tasks with None": Refused(on_tasks(lambda tasks: put(tasks, 3, None, object)), "task of row 3 is missing"),
    "a list of tasks with NaN": Refused(
        on_tasks(lambda tasks: [*tasks[:-1].tolist(), np.nan]), "the task of row 35 is missing"
    ),
    "mixed tasks": Refused(on_tasks(lambda tasks: put(tasks, 3, 1, object)), "task labels are of mixed types: int, st"),
    "a list of mixed tasks": Refused(
        on_tasks(lambda tasks: [1, *tasks[1:].tolist()]), "task labels are of mixed types: int, str"
    ),
    "tasks of dicts": Refused(on_tasks(lambda tasks: [{}] * N), "task labels of type dict cannot be sorted"),
    "weights too short": Refused(on_weight(lambda weight: weight[:-1]), r"sample_weight.shape == \(35,\), expected"),
    "weights with NaN": Refused(on_weight(lambda weight: put(weight, 3, np.nan)), "Input sample_weight contains NaN"),
    "weights below zero": Refused(on_weight(lambda weight: -weight), "Negative values in data passed to `sample_weigh"),
    "weights of zero": Refused(
        on_weight(np.zeros_like), r"sample_weight: .*at least one non-zero number|no samples .* positive weight"
    ),
    "weights too large": Refused(
        on_weight(lambda weight: weight * 1e100), r"C, sample_weight and y reach .*e\+\d+ as a product", MACHINES
    ),
}

NO_SCORE = "no candidate has a score"


class Odd(NamedTuple):
    """Data that can be fitted; `refusals` are the estimators that cannot, with the words they say it in."""

    change: Change
    refusals: Mapping[str, str] = MappingProxyType({})
    among: set[str] = ALL


def _few(data: Data) -> Data:
    """Two rows of each task, of two classes where there are classes."""
    if data.tasks is None:
        return Data(data.X[:2], data.y[:2])
    first = [
        np.flatnonzero((data.tasks == task) & (data.y == label if data.y.dtype.kind == "U" else True))[:2][where]
        for task in TASKS
        for where, label in ((0, "no"), (-1, "yes"))
    ]
    return Data(data.X[first], data.y[first], data.tasks[first])


ZERO = dict.fromkeys(ALL, "kernel 'linear' is zero on all training rows")
ODD = {
    "each row six times": Odd(on_X(lambda X: X[NUMBERS * 12 + np.arange(N) % 2])),
    "every row twice": Odd(all_of(lambda part: np.concatenate([part, part]))),
    "a constant feature": Odd(on_X(lambda X: put(X, np.index_exp[:, 1], 7.0))),
    "a zero feature": Odd(on_X(lambda X: put(X, np.index_exp[:, 1], 0.0))),
    "constant features": Odd(on_X(lambda X: np.full_like(X, 7.0))),
    "features of zero": Odd(on_X(np.zeros_like), ZERO),
    "one feature": Odd(on_X(lambda X: X[:, :1])),
    "features of many scales": Odd(on_X(lambda X: X * [1e-150, 1.0, 1e150])),
    "X far from the origin": Odd(on_X(lambda X: X + 1e8)),
    "X that all but stands still": Odd(on_X(lambda X: X + 1e150)),
    "X of whole numbers": Odd(on_X(lambda X: (10 * X).astype(np.int32))),
    "X of truths": Odd(on_X(lambda X: X > 0)),
    "X huge": Odd(on_X(lambda X: X * 1e150)),
    "X tiny": Odd(on_X(lambda X: X * 1e-150)),
    "X in float16": Odd(on_X(lambda X: X.astype(np.float16))),
    "y huge": Odd(on_y(lambda y: y * 1e70), {}, REGRESSORS),
    "y tiny": Odd(on_y(lambda y: y * 1e-150), {}, REGRESSORS),
    "y constant": Odd(on_y(lambda y: np.full_like(y, 3.5)), dict.fromkeys(SEARCHES, NO_SCORE), REGRESSORS),
    "y zero": Odd(on_y(np.zeros_like), dict.fromkeys(SEARCHES, NO_SCORE), REGRESSORS),
    "tasks of two rows": Odd(_few, dict.fromkeys(SEARCHES & CLASSIFIERS, "cross-validation needs two folds")),
    "half of the rows weightless": Odd(on_weight(lambda weight: weight * (np.arange(N) > 17)), {}, REGRESSORS),
    "weights huge and tiny": Odd(on_weight(lambda weight: np.where(np.arange(N) % 2, 1e30, 1e-30))),
}


def _locked(part: np.ndarray) -> np.ndarray:
    part = part.copy()
    part.setflags(write=False)
    return part


GREEK = dict(zip(TASKS, ("άλφα", "βήτα 日本", "🙂"), strict=True))
# The same data, put differently: what comes out must be the same to the last bit.
DISGUISES: dict[str, Change] = {
    "read-only": all_of(_locked),
    "not contiguous": all_of(lambda part: np.repeat(part, 2, axis=0)[::2]),
    "every other column": on_X(lambda X: np.repeat(X, 2, axis=1)[:, ::2]),
    "big-endian": on_X(lambda X: X.astype(">f8")),
    "objects": all_of(lambda part: part.astype(object)),
    "X written as text": on_X(lambda X: np.array([[repr(float(x)) for x in row] for row in X])),
    "lists": all_of(lambda part: part.tolist()),
    "data frame": lambda data: data._replace(X=pd.DataFrame(data.X, columns=list("abc"))),
    "unicode tasks": lambda data: data._replace(tasks=None if data.tasks is None else [GREEK[t] for t in data.tasks]),
    "tasks as numbers": lambda data: data._replace(
        tasks=None if data.tasks is None else np.searchsorted(TASKS, data.tasks)
    ),
    "a column of tasks": lambda data: data._replace(tasks=None if data.tasks is None else data.tasks[:, np.newaxis]),
    "unicode classes": lambda data: data._replace(
        y=np.where(data.y == "yes", "ñandú", "nej 🙂") if data.y.dtype.kind == "U" else data.y
    ),
    "classes as numbers": lambda data: data._replace(y=(data.y == "yes") * 1 if data.y.dtype.kind == "U" else data.y),
    "classes as truths": lambda data: data._replace(y=data.y == "yes" if data.y.dtype.kind == "U" else data.y),
    "equal weights": on_weight(lambda weight: weight),
}

# Faults of rows to predict: (X, tasks) -> (X, tasks).
Query = tuple[Any, Any]


class Asked(NamedTuple):
    change: Callable[[Any, Any], Query]
    message: str
    among: set[str] = ALL


QUERIES = {
    "too few columns": Asked(lambda X, tasks: (X[:, :2], tasks), "X has 2 features, but .* is expecting 3"),
    "one dimension": Asked(lambda X, tasks: (X[0], tasks), "Expected 2D array, got 1D array"),
    "no rows": Asked(lambda X, tasks: (X[:0], tasks), r"X: Found array with 0 sample\(s\)"),
    "NaN": Asked(lambda X, tasks: (put(X, (3, 1), np.nan), tasks), "X, column 1: Input X contains NaN"),
    "inf": Asked(lambda X, tasks: (put(X, (3, 1), np.inf), tasks), "X, column 1: Input X contains infinity"),
    "words": Asked(lambda X, tasks: (put(X, (3, 1), "tall", object), tasks), "X, column 1: could not convert .*'tall'"),
    "sparse": Asked(lambda X, tasks: (csr_array(X), tasks), "Sparse data was passed for X"),
    "too large": Asked(lambda X, tasks: (X * 1e160, tasks), "X has values of size .*rescale X"),
    "no tasks": Asked(lambda X, tasks: (X, None), "fitted on 3 tasks .* and needs the task of each row", LONG),
    "tasks too short": Asked(lambda X, tasks: (X, ["ada"] * 3), "X has 36 rows, but tasks has 3"),
    "an unknown task": Asked(lambda X, tasks: (X, ["eve"] * N), "unknown task 'eve'; this model knows ('ada'|0)"),
    "a missing task": Asked(lambda X, tasks: (X, [None] * N), "the task of row 0 is missing"),
    "a task that is NaN": Asked(lambda X, tasks: (X, [np.nan] * N), "the task of row 0 is NaN"),
    "a task of another type": Asked(lambda X, tasks: (X, [7] * N), "unknown task 7; this model knows"),
    "mixed tasks": Asked(lambda X, tasks: (X, [0, *TASKS * 12][:N]), "task labels are of mixed types: int, str"),
}
