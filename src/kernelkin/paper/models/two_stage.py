"""Two-stage online MK-MTRL: kernel weights from pairs of rows, then one machine for each task."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import _fit_context, is_classifier
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ...data import Queries, listing
from ...engines import Workers, count_workers
from ...memory import check_memory
from ..fitting import (
    Classification,
    Regression,
    TwoStageFit,
    check_stream,
    plan_stream_machines,
    start_stream,
    stream_fitted,
)
from .kinds import MultiTaskClassifier, MultiTaskRegressor
from .parameters import CLASSES, COUNT, COUPLED, KERNEL_MACHINE, POSITIVE, REGRESSION_LOSS, Parameter, describe

_PARAMETERS: dict[str, Parameter] = {
    "couplings": Parameter(
        'None, "common", "targets" or dict',
        "Parts of the functions that tasks share, as for `MKMTRLClassifier`. Stage 1 is the same without them; stage 2 "
        "fits linked tasks as one exact machine, in which a coupling has the mean of its tasks' kernel weights, and is "
        "as strong as the tasks' own parts.",
    ),
    "mu": Parameter(
        "float",
        'What steps are divided by. With ``update="perceptron"`` it scales all weights alike, and so changes nothing.',
        POSITIVE,
    ),
    "n_rounds": Parameter("int", "Pairs that `fit` draws. `partial_fit` makes one for each row.", COUNT),
    "update": Parameter(
        '{"perceptron", "hinge"}',
        "Learn from pairs with the wrong sign, as the paper does, or from all whose margin is below one, which mostly "
        "finds better weights (``benchmarks/online_quality.py``).",
        [StrOptions({"perceptron", "hinge"})],
    ),
    "refresh": Parameter(
        "int, optional",
        "Mistakes between refreshes of the relationship. None: as many as there are tasks, and at least 100. A refresh "
        "costs as much as many rounds, and after one that comes before most tasks have learned anything the others "
        "learn little.",
        [*COUNT, None],
    ),
    "average": Parameter(
        "bool", "Whether the result is the average of the weights over rounds, or the last ones.", ["boolean"]
    ),
    "center_pairs": Parameter(
        "bool",
        "Whether the mean of a task's pairs is subtracted from their kernel values, as an intercept would do. Without "
        "it the combination of kernels that are never negative has one sign, and is wrong about all pairs of the "
        "other. The paper's algorithm as printed has none.",
        ["boolean"],
    ),
    "reservoir": Parameter(
        "int",
        "Rows of each task that are kept for `partial_fit`: a random sample of those seen so far, or all if there are "
        "no more.",
        [Interval(Integral, 2, None, closed="left")],
    ),
    "max_exact": Parameter(
        "int",
        "Tasks of more rows have a linear machine on Nystroem features; `nystroem_tasks_` names them.",
        [Interval(Integral, 2, None, closed="left")],
    ),
    "tol": Parameter("float", "The relative duality gap of the machines.", POSITIVE),
    "random_state": Parameter(
        "int, RandomState or None", "Seed of the pairs, the reservoirs and the landmarks.", ["random_state"]
    ),
    "verbose": Parameter("int", "1 shows a progress bar.", ["verbose"]),
}

_ATTRIBUTES: dict[str, tuple[str, str]] = {
    "tasks_": ("array of shape (T,)", "Task labels; in a stream, in the order in which tasks came."),
    "kernel_weights_": (
        "array of shape (T, K)",
        "Kernel weights. Every task's sum to one: the signs of pairs determine a direction and no length.",
    ),
    "objective_": ("float", "The sum of the machines' objectives; NaN with Nystroem features."),
    "duality_gap_": (
        "float",
        "Upper bound on the distance of `objective_` from its optimum at these kernel weights; NaN with Nystroem "
        "features.",
    ),
    "history_": ("dict of arrays", "`round`, `mistake_rate` in all rounds up to it, `recent_mistake_rate`."),
    "n_iter_": ("int", "Number of rounds."),
    "n_skipped_": ("int", "Rows of the stream that had no partner."),
    "nystroem_tasks_": ("array", "Tasks with Nystroem features."),
    "unfitted_tasks_": (
        "dict from task to str",
        "Tasks of a stream that cannot have a machine yet, and why: `predict` refuses them.",
    ),
    "stream_": (
        "Stream or None",
        "What `partial_fit` continues from: the state of the online solver and at most `reservoir` rows of each task. "
        "None where the model cannot be continued.",
    ),
}


@_fit_context(prefer_skip_nested_validation=True)
def partial_fit(self, X: Any, y: Any, tasks: Any = None, classes: Any = None, freeze_others: bool = False):
    """Continue with the next rows of a stream; the machines are fitted when they are first needed.

    Every row makes one round, with a partner drawn from the rows of its task in a reservoir of `reservoir` rows, which
    are also the rows that its machine is fitted on. The first row of a task has no partner: it is skipped, and counted
    in `n_skipped_`. The kernels are fitted on the first 1000 rows of the stream, or by `fit` before. A stream leads to
    the same state in one piece or in many.

    A task that was not seen before joins with weights of zero and the identity's row of the relationship, until rows of
    its own have changed its weights.

    Parameters
    ----------
    X, y, tasks
        As for `fit`; `y` of the same form in every call.
    classes : array, optional
        All classes there will be; a classifier then refuses others.
    freeze_others : bool, default False
        Whether tasks that these rows do not belong to keep their kernel weights and predict exactly as before. (The
        online solver learns from the rows all the same, and a later call without this goes on from there.)

    Returns
    -------
    self : object
    """
    specification, first = self.specification(), "stream_" not in vars(self)
    check_stream(specification)
    piece = self._read_training(X, y, tasks, reset=first)
    if not first and piece.form != self.data_form_:
        raise ValueError(f"this model was fitted on {self.data_form_} data, and these are {piece.form}")
    if classes is not None and is_classifier(self):
        _check_classes(np.concatenate(piece.y), classes)
    stream = start_stream(specification, self.verbose) if first else self.stream_
    if stream is None:
        raise ValueError("this model was fitted with parameters that allow no stream: fit it again")
    if freeze_others and not first:
        _fit_missing_machines(self)
        before = self.tasks_, self.kernel_weights_, self.functions_
    with Workers(1):
        stream.feed(piece)
        self.store(stream_fitted(specification, stream, piece.form))
    if freeze_others and not first:
        _keep_others(self, piece.labels, *before)
    return self


def _keep_others(model: Any, learned: np.ndarray, tasks: np.ndarray, weights: np.ndarray, functions: Any) -> None:
    """Give tasks other than those that were `learned` the kernel weights and functions that they had before."""
    kept = np.flatnonzero(~np.isin(tasks, learned))
    model.kernel_weights_[kept] = weights[kept]
    _fit_missing_machines(model)
    model.functions_ = model.functions_.with_kept(functions, kept)


def _check_classes(y: np.ndarray, classes: Any) -> None:
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"y has classes {listing(unknown)}, which are not among classes={listing(list(classes))}")


def _fit_missing_machines(model: Any) -> None:
    """Fit the machines of a model whose stream has had rows since the last time."""
    check_is_fitted(model)
    if "functions_" in vars(model):
        return
    plan = plan_stream_machines(model.specification(), model.stream_, model.kernel_weights_)
    options = model.run_options()
    check_memory(plan.memory(count_workers(options.n_jobs)))
    for name, value in plan.run(options).attributes.items():
        # Kernel weights and classes are those of the stream, of which the rows of the machines are a sample.
        if name not in vars(model):
            setattr(model, name, value)


def _check_fitted_tasks(model: Any, queries: Queries) -> Queries:
    """Refuse to predict tasks that have no machine."""
    every = np.arange(len(model.tasks_))
    needed = every if queries.codes is None else np.intersect1d(queries.codes, every)
    for task in model.tasks_[needed].tolist() if model.unfitted_tasks_ else ():
        if task in model.unfitted_tasks_:
            raise ValueError(model.unfitted_tasks_[task])
    return queries


@describe((*KERNEL_MACHINE, *CLASSES, *COUPLED), own_attributes=_ATTRIBUTES, **_PARAMETERS)
class TwoStageMKMTRLClassifier(MultiTaskClassifier):
    """Two-stage online MK-MTRL for classification, for data whose Gram matrices do not fit in memory, and for streams.

    Stage 1 learns kernel weights and task relationship from pairs of rows: whether two rows are of one class should
    show in the sign of the combined kernel (the paper's Algorithm 2). It holds no Gram matrix and nothing of size T x
    T. Stage 2 fits one kernel machine for each task, one task at a time. `duality_gap_` certifies these machines at the
    weights of stage 1, not the weights: for that there is `MKMTRLClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import TwoStageMKMTRLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = TwoStageMKMTRLClassifier(n_rounds=2000, random_state=0).fit(X, y, tasks=tasks)
    >>> model.kernel_weights_.shape
    (3, 6)
    >>> sorted(model.related_tasks("a", X, y, tasks))
    ['b', 'c']
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        couplings=None,
        task_features=None,
        mu=1.0,
        parsimony=0.0,
        shrinkage=0.1,
        min_rank=1.0,
        loss="hinge",
        class_weight=None,
        n_rounds=100_000,
        update="hinge",
        refresh=None,
        average=True,
        center_pairs=True,
        reservoir=500,
        max_exact=2000,
        normalize="trace",
        unknown_tasks="error",
        min_rows=None,
        task_column=None,
        tol=1e-3,
        n_jobs=None,
        engine="threads",
        random_state=None,
        verbose=0,
    ):
        self.kernels = kernels
        self.C = C
        self.couplings = couplings
        self.task_features = task_features
        self.mu = mu
        self.parsimony = parsimony
        self.shrinkage = shrinkage
        self.min_rank = min_rank
        self.loss = loss
        self.class_weight = class_weight
        self.n_rounds = n_rounds
        self.update = update
        self.refresh = refresh
        self.average = average
        self.center_pairs = center_pairs
        self.reservoir = reservoir
        self.max_exact = max_exact
        self.normalize = normalize
        self.unknown_tasks = unknown_tasks
        self.min_rows = min_rows
        self.task_column = task_column
        self.tol = tol
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    partial_fit = partial_fit

    def specification(self) -> TwoStageFit:
        return _specification(self, Classification(self.loss, self.class_weight))

    def _read_queries(self, X: Any, tasks: Any) -> Queries:
        _fit_missing_machines(self)
        return _check_fitted_tasks(self, super()._read_queries(X, tasks))


@describe((*KERNEL_MACHINE, *COUPLED), own_attributes=_ATTRIBUTES, loss=REGRESSION_LOSS, **_PARAMETERS)
class TwoStageMKMTRLRegressor(MultiTaskRegressor):
    """Two-stage online MK-MTRL for regression, for data whose Gram matrices do not fit in memory, and for streams.

    As `TwoStageMKMTRLClassifier`, but that a pair of rows belongs together where their targets are on the same side of
    the task's mean, and counts by how far they are from it: the round's weight is the product of the two distances, in
    standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import TwoStageMKMTRLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])  # wide: two tasks on the same rows
    >>> model = TwoStageMKMTRLRegressor(C=10, n_rounds=2000, random_state=0).fit(X, Y)
    >>> model.predict(X).shape
    (40, 2)
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        couplings=None,
        task_features=None,
        mu=1.0,
        parsimony=0.0,
        shrinkage=0.1,
        min_rank=1.0,
        loss="squared",
        epsilon=0.1,
        fit_intercept=True,
        n_rounds=100_000,
        update="hinge",
        refresh=None,
        average=True,
        center_pairs=True,
        reservoir=500,
        max_exact=2000,
        normalize="trace",
        unknown_tasks="error",
        min_rows=None,
        task_column=None,
        tol=1e-3,
        n_jobs=None,
        engine="threads",
        random_state=None,
        verbose=0,
    ):
        self.kernels = kernels
        self.C = C
        self.couplings = couplings
        self.task_features = task_features
        self.mu = mu
        self.parsimony = parsimony
        self.shrinkage = shrinkage
        self.min_rank = min_rank
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.n_rounds = n_rounds
        self.update = update
        self.refresh = refresh
        self.average = average
        self.center_pairs = center_pairs
        self.reservoir = reservoir
        self.max_exact = max_exact
        self.normalize = normalize
        self.unknown_tasks = unknown_tasks
        self.min_rows = min_rows
        self.task_column = task_column
        self.tol = tol
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    partial_fit = partial_fit

    def specification(self) -> TwoStageFit:
        return _specification(self, Regression(self.loss, self.epsilon, self.fit_intercept))

    def _read_queries(self, X: Any, tasks: Any) -> Queries:
        _fit_missing_machines(self)
        return _check_fitted_tasks(self, super()._read_queries(X, tasks))


def _specification(
    model: TwoStageMKMTRLClassifier | TwoStageMKMTRLRegressor, targets: Classification | Regression
) -> TwoStageFit:
    return TwoStageFit(
        targets=targets,
        kernels=model.kernels,
        C=model.C,
        couplings=model.couplings,
        task_features=model.task_features,
        unknown_tasks=model.unknown_tasks,
        mu=model.mu,
        parsimony=model.parsimony,
        shrinkage=model.shrinkage,
        min_rank=model.min_rank,
        n_rounds=model.n_rounds,
        update=model.update,
        refresh=model.refresh,
        average=model.average,
        center_pairs=model.center_pairs,
        reservoir=model.reservoir,
        max_exact=model.max_exact,
        normalize=model.normalize,
        tol=model.tol,
        random_state=model.random_state,
    )
