"""`sharing_report`: does sharing help on these data, or would something simpler do?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from ..data import Fold, TaskData
from ..progress import Progress
from .ablations import OURS, make_ablations
from .gains import Gain, HeldOutScores, Summary
from .splits import held_out_values, repeated_folds, tested_rows
from .verdict import recommendation, report_table, report_text

# Where a class is rarer than this in some task, accuracy says little, and AUC is the score.
RARE = 0.2


@dataclass(frozen=True)
class LearningCurve:
    """Gain of the model on independent kernel learning, by training rows of a task.

    Attributes
    ----------
    sizes : (S,) the training rows that every task has at most.
    gains : of each size, over tasks.
    tasks : (S, T) the gain of each task; NaN where it is set aside.
    """

    sizes: np.ndarray
    gains: tuple[Gain, ...]
    tasks: np.ndarray

    @property
    def stops_at(self) -> int | None:
        """The fewest rows from which on sharing is not clearly ahead; None: it is ahead at the last size."""
        ahead = [gain.sign > 0 for gain in self.gains]
        if ahead[-1]:
            return None
        last = max((i for i, clear in enumerate(ahead) if clear), default=-1)
        return int(self.sizes[last + 1])


@dataclass(frozen=True)
class SharingReport:
    """A model beside what it would be without sharing, on rows left out in turn.

    Parameters
    ----------
    name : str
        The model.
    score : str
        "r2", "accuracy" or "roc_auc".
    tasks : array of shape (T,)
        Task labels.
    test_rows : array of shape (T,) of int
        Rows of each task that were predicted while left out.
    used : array of shape (T,) of bool
        Tasks with enough test rows; the others are set aside.
    scores : dict from names to arrays of shape (T,)
        Score of each task by the model ("this model") and by each ablation.
    summaries : dict from names to Summary
        Mean over tasks, mean over rows and median of these scores.
    gains : dict from names to Gain
        What the model gains on each ablation, with intervals.
    curve : LearningCurve or None
        On request.
    level : float
        Level of the intervals.
    cv, n_repeats : int
        Folds, and repetitions with other folds.
    requested_repeats : int
        Requested repetitions; there are fewer where the time limit was reached.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import AverageRegressor, sharing_report
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(60, 2)), np.repeat(list("abcdef"), 10)
    >>> y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=60)
    >>> report = sharing_report(AverageRegressor(C=10), X, y, tasks, ablations=["pooled"], n_repeats=1, random_state=0)
    >>> report.verdict
    'Recommendation: use the pooled model: one function of all rows, with the task as columns ...'
    """

    name: str
    score: str
    tasks: np.ndarray
    test_rows: np.ndarray
    used: np.ndarray
    scores: dict[str, np.ndarray]
    summaries: dict[str, Summary]
    gains: dict[str, Gain]
    curve: LearningCurve | None
    level: float
    cv: int
    n_repeats: int
    requested_repeats: int

    def __str__(self) -> str:
        return report_text(self)

    def table(self) -> list[list[str]]:
        """Rows of texts: model, mean over tasks, mean over rows, median, gain of this model and its interval."""
        return report_table(self)

    @property
    def verdict(self) -> str:
        """The recommendation."""
        return recommendation(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and texts, for files and pages; the learning curve is left out."""
        found = {key: value for key, value in vars(self).items() if key != "curve"}
        for key in ("tasks", "test_rows", "used"):
            found[key] = found[key].tolist()
        found["scores"] = {name: values.tolist() for name, values in self.scores.items()}
        found["summaries"] = {name: asdict(summary) for name, summary in self.summaries.items()}
        found["gains"] = {name: {**asdict(gain), "tasks": gain.tasks.tolist()} for name, gain in self.gains.items()}
        return found

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> SharingReport:
        """The same from what `to_dict` returned."""
        read = {key: np.asarray(found[key]) for key in ("tasks", "test_rows", "used")}
        return cls(
            **{
                **found,
                **read,
                "scores": {name: np.asarray(values) for name, values in found["scores"].items()},
                "summaries": {name: Summary(**summary) for name, summary in found["summaries"].items()},
                "gains": {name: Gain.from_dict(gain) for name, gain in found["gains"].items()},
                "curve": None,
            }
        )


def sharing_report(
    model: Any,
    X: Any,
    y: Any,
    tasks: Any = None,
    *,
    ablations: Sequence[str] | None = None,
    cv: int = 5,
    n_repeats: int = 2,
    scoring: str | None = None,
    min_rows: int = 5,
    curve_sizes: Sequence[int] | None = None,
    level: float = 0.95,
    random_state: Any = None,
    time_limit: float | None = None,
    verbose: int = 0,
    callback: Callable[[int, int, str], None] | None = None,
) -> SharingReport:
    """Compare a model with simpler ones by repeated cross-validation, and say which to use.

    Ablations: "independent" (kernels learned in each task on its own), "average" (one machine a task on the average
    kernel), "single" (one machine a task on one kernel), "pooled" (one model of all rows, the task as columns of 0 and
    1), "boosting" (scikit-learn's gradient boosting with the task as a category). Those of one machine a task have the
    model's kernels, loss and C; where the model searches, they choose C by cross-validation too, and a task of a single
    training row or class has its mean, or that class. The pooled model always chooses its penalty: tune a model before
    its sharing is judged.

    Parameters
    ----------
    model : model of this library, fitted or not
        It is fitted anew in every fold, with its search, if it has one.
    X, y, tasks : as for `fit`
        Training rows: nothing else is used.
    ablations : list of str, optional
        Some of the names above; all by default.
    cv : int, default 5
        Folds, made inside every task.
    n_repeats : int, default 2
        Repetitions with other folds.
    scoring : {"r2", "accuracy", "roc_auc"}, optional
        R^2 for regression; for classification accuracy, or the area under the ROC curve where all tasks have two
        classes and one of them is rare.
    min_rows : int, default 5
        Tasks with fewer test rows are set aside: their scores are noise.
    curve_sizes : list of int, optional
        Also compare the model with independent kernel learning at these numbers of training rows a task.
    level : float, default 0.95
        Level of the intervals, which come from resampling the rows of every task.
    random_state : int, RandomState or None
        Seed of folds and intervals.
    time_limit : float, optional
        Seconds. A repetition after the first is begun only if it is expected to end within this time; the report says
        how many there were.
    verbose : int, default 0
        1 shows progress on standard error.
    callback : callable, optional
        Called before each fit with the number of fits that are done, their total and a text.

    Returns
    -------
    report : SharingReport

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor, sharing_report
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(80, 2)), np.repeat(list("abcdefgh"), 10)
    >>> y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=80)
    >>> model = MKMTRLRegressor(C=10, couplings="common")
    >>> report = sharing_report(model, X, y, tasks, ablations=["independent"], n_repeats=1, random_state=0)
    >>> report.gains["independent"].sign
    1
    """
    classification = is_classifier(model)
    single = model.make_model() if hasattr(model, "make_model") else model
    data = clone(single).training_data(X, y, tasks)
    score = _score(data, scoring, classification=classification)
    rng = check_random_state(random_state)
    seed = int(rng.randint(2**31 - 1))
    fits = make_ablations(model, None if ablations is None else list(ablations), seed)
    folds = repeated_folds(data, cv, n_repeats, classification=classification, rng=rng)

    display = Progress(1 if curve_sizes is None else 1 + len(curve_sizes)) if verbose else None

    def report(done: int, of: int, text: str) -> None:
        if display is not None:
            display.part(done, of, f"{text}, fit")
        if callback is not None:
            callback(done, of, text)

    def compare(models: dict[str, Any], given: list[list[Fold]], limit: float | None = None) -> HeldOutScores:
        if display is not None:
            display.begin("does sharing help")
        ranks = score == "roc_auc"
        values = held_out_values(data, models, folds=given, ranks=ranks, callback=report, time_limit=limit)
        masks = zip(*(tested_rows(data, repetition) for repetition in given), strict=True)
        tested = [np.logical_and.reduce(of_task) for of_task in masks]
        return HeldOutScores(data, tested, values, score, min_rows, rng)

    with display or nullcontext():
        found = compare(fits, folds, time_limit)
        if not found.used.any():
            raise ValueError(f"no task has {min_rows} test rows or more (both classes, for AUC): lower min_rows")
        curve = None
        if curve_sizes is not None:
            pair = {OURS: fits[OURS], **make_ablations(model, ["independent"], seed)}
            classes = data.y if classification else None
            curve = _curve(compare, pair, classes, folds[: found.n_repeats], sorted(curve_sizes), level, rng)
    name = type(getattr(model, "estimator", model)).__name__
    return _report(name, data, found, score=score, level=level, curve=curve, cv=cv, requested_repeats=n_repeats)


def _report(name: str, data: TaskData, found: HeldOutScores, *, level: float, **given: Any) -> SharingReport:
    return SharingReport(
        name=name,
        tasks=data.labels,
        test_rows=found.rows,
        used=found.used,
        scores=dict(zip(found.names, found.scores, strict=True)),
        summaries={model: found.summary(values) for model, values in zip(found.names, found.scores, strict=True)},
        gains={model: found.gain(OURS, model, level) for model in found.names if model != OURS},
        level=level,
        n_repeats=found.n_repeats,
        **given,
    )


def _score(data: TaskData, scoring: str | None, *, classification: bool) -> str:
    allowed = ("accuracy", "roc_auc") if classification else ("r2",)
    binary = classification and all(len(np.unique(y)) == 2 for y in data.y)
    if scoring is None:
        rare = binary and min(np.unique(y, return_counts=True)[1].min() / len(y) for y in data.y) < RARE
        return "roc_auc" if rare else allowed[0]
    if scoring not in allowed:
        raise ValueError(f"scoring must be one of {', '.join(allowed)} for this model, got {scoring!r}")
    if scoring == "roc_auc" and not binary:
        raise ValueError("scoring='roc_auc' is for two classes, and a task has more")
    return scoring


def _curve(
    compare: Callable[[dict[str, Any], list[list[Fold]]], HeldOutScores],
    pair: dict[str, Any],
    classes: Sequence[np.ndarray] | None,
    folds: list[list[Fold]],
    sizes: Sequence[int],
    level: float,
    rng: np.random.RandomState,
) -> LearningCurve:
    """The model and independent kernel learning with at most so many training rows a task."""
    gains = []
    for size in sizes:
        fewer = [[_with_fewer_rows(fold, classes, size, rng) for fold in repetition] for repetition in folds]
        gains.append(compare(pair, fewer).gain(OURS, "independent", level))
    return LearningCurve(np.array(sizes), tuple(gains), np.stack([gain.tasks for gain in gains]))


def _with_fewer_rows(fold: Fold, classes: Sequence[np.ndarray] | None, size: int, rng: np.random.RandomState) -> Fold:
    """The fold with at most `size` training rows of each task, drawn at random; a row of each class is among them."""
    kept = []
    for t, part in enumerate(fold.kept):
        drawn = rng.permutation(part)
        first = np.empty(0, dtype=np.intp) if classes is None else np.unique(classes[t][drawn], return_index=True)[1]
        drawn = np.concatenate([drawn[first], np.delete(drawn, first)])
        kept.append(np.sort(drawn[: max(size, len(first))]))
    return Fold(tuple(kept), fold.held)
