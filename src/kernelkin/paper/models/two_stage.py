"""Two-stage online MK-MTRL: kernel weights from pairs of rows, then one machine for each task."""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import _fit_context, is_classifier
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ...data.arrays import listing
from ...data.forms import Queries
from ...engines.threads import Workers, count_workers
from ...memory import check_memory
from ...parameters import (
    CLASSES,
    COUNT,
    COUPLED,
    KERNEL_MACHINE,
    POSITIVE,
    REGRESSION_LOSS,
    Parameter,
    describe,
    set_parameters,
)
from ..fitting.two_stage import TwoStageFit, plan_stream_machines, stream_fitted
from .base import PaperClassifier, PaperEstimator, PaperRegressor
from .machines import targets_of

_FIELDS = frozenset(field.name for field in fields(TwoStageFit)) - {"targets"}
_PARAMETERS: dict[str, Parameter] = {
    "couplings": Parameter(
        'None, "common" or dict',
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


class _TwoStage(PaperEstimator):
    def specification(self) -> TwoStageFit:
        given = {name: value for name, value in self.get_params(deep=False).items() if name in _FIELDS}
        return TwoStageFit(targets=targets_of(self), **given)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, tasks: Any = None, classes: Any = None, freeze_others: bool = False):
        """Continue with the next rows of a stream; the machines are fitted when they are first needed.

        Every row makes one round, with a partner drawn from the rows of its task in a reservoir of `reservoir` rows,
        which are also the rows that its machine is fitted on. The first row of a task has no partner: it is skipped,
        and counted in `n_skipped_`. The kernels are fitted on the first 1000 rows of the stream, or by `fit` before. A
        stream leads to the same state in one piece or in many.

        A task that was not seen before joins with weights of zero and the identity's row of the relationship, until
        rows of its own have changed its weights.

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
        if specification.stream_fault:
            raise ValueError(specification.stream_fault)
        piece = self.read_rows(X, y, tasks, reset=first)
        if not first and piece.form != self.data_form_:
            raise ValueError(f"this model was fitted on {self.data_form_} data, and these are {piece.form}")
        unknown = np.setdiff1d(np.concatenate(piece.y), classes) if classes is not None and is_classifier(self) else ()
        if len(unknown):
            raise ValueError(f"y has classes {listing(unknown)}, which are not among classes={listing(list(classes))}")
        stream = specification.stream(specification.seed(), self.verbose) if first else self.stream_
        if stream is None:
            raise ValueError("this model was fitted with parameters that allow no stream: fit it again")
        if freeze_others and not first:
            self._fit_missing_machines()
            before = self.tasks_, self.kernel_weights_, self.functions_
        with Workers(1):
            stream.feed(piece)
            self.store(stream_fitted(specification, stream, piece.form))
        if freeze_others and not first:
            self._keep_others(piece.labels, *before)
        return self

    def _keep_others(self, learned: np.ndarray, tasks: np.ndarray, weights: np.ndarray, functions: Any) -> None:
        """Give tasks other than those that were `learned` the kernel weights and functions that they had before."""
        kept = np.flatnonzero(~np.isin(tasks, learned))
        self.kernel_weights_[kept] = weights[kept]
        self._fit_missing_machines()
        self.functions_ = self.functions_.with_kept(functions, kept)

    def _fit_missing_machines(self) -> None:
        """Fit the machines, if the stream has had rows since the last time."""
        check_is_fitted(self)
        if "functions_" in vars(self):
            return
        plan, options = (
            plan_stream_machines(self.specification(), self.stream_, self.kernel_weights_),
            self.run_options(),
        )
        check_memory(plan.memory(count_workers(options.n_jobs)))
        for name, value in plan.run(options).attributes.items():
            # Kernel weights and classes are those of the stream, of which the rows of the machines are a sample.
            if name not in vars(self):
                setattr(self, name, value)

    def read_queries(self, X: Any, tasks: Any) -> Queries:
        """Return what `predict` is given; refuses tasks that have no machine."""
        self._fit_missing_machines()
        queries = super().read_queries(X, tasks)
        every = np.arange(len(self.tasks_))
        needed = every if queries.codes is None else np.intersect1d(queries.codes, every)
        for task in self.tasks_[needed].tolist() if self.unfitted_tasks_ else ():
            if task in self.unfitted_tasks_:
                raise ValueError(self.unfitted_tasks_[task])
        return queries


@describe((*KERNEL_MACHINE, *CLASSES, *COUPLED), own_attributes=_ATTRIBUTES, **_PARAMETERS)
class TwoStageMKMTRLClassifier(_TwoStage, PaperClassifier):
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
        random_state=None,
        verbose=0,
    ):
        set_parameters(self, locals())


@describe((*KERNEL_MACHINE, *COUPLED), own_attributes=_ATTRIBUTES, loss=REGRESSION_LOSS, **_PARAMETERS)
class TwoStageMKMTRLRegressor(_TwoStage, PaperRegressor):
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
        random_state=None,
        verbose=0,
    ):
        set_parameters(self, locals())
