"""Two-stage online MK-MTRL: learn kernel weights from pairs of rows, then fit one machine per task."""

from __future__ import annotations

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
from ...parameters import COUNT, KERNEL_MACHINE, POSITIVE, Parameter, describe
from ..fitting.two_stage import TwoStageFit
from .base import PaperClassifier, PaperEstimator, PaperRegressor
from .machines import make_fit

_NAMES = (
    "kernels * C mu shrinkage min_rank targets n_rounds update refresh average center_pairs reservoir max_exact "
    "normalize task_column tol n_jobs random_state verbose"
)
_PARAMETERS: dict[str, Parameter] = {
    "mu": Parameter(
        "float",
        'Steps are divided by mu. With ``update="perceptron"`` it only rescales all weights and has no effect.',
        POSITIVE,
        1.0,
    ),
    "n_rounds": Parameter(
        "int", "Number of pairs of rows drawn by `fit`. `partial_fit` uses one pair per row.", COUNT, 100_000
    ),
    "update": Parameter(
        '{"perceptron", "hinge"}',
        '"perceptron": learn from pairs with the wrong sign, as in the paper; "hinge": from all pairs with a margin '
        "below one, which usually finds better weights (``benchmarks/online_quality.py``).",
        [StrOptions({"perceptron", "hinge"})],
        "hinge",
    ),
    "refresh": Parameter(
        "int, optional",
        "Number of mistakes between updates of the relationship. None: the number of tasks, but at least 100. An "
        "update costs as much as many rounds. Early updates are harmful: tasks without weights would learn slowly.",
        [*COUNT, None],
    ),
    "average": Parameter(
        "bool", "Whether to return the average weights over all rounds or the last weights.", ["boolean"], True
    ),
    "center_pairs": Parameter(
        "bool",
        "Whether to subtract the mean over a task's pairs from their kernel values, like an intercept. Without it, a "
        "combination of non-negative kernels is never negative, and so wrong for all pairs of different classes. The "
        "published algorithm does not centre pairs.",
        ["boolean"],
        True,
    ),
    "reservoir": Parameter(
        "int",
        "Number of rows of each task to keep for `partial_fit`: a random sample of the rows seen so far.",
        [Interval(Integral, 2, None, closed="left")],
        500,
    ),
    "max_exact": Parameter(
        "int",
        "Tasks with more rows use a linear machine on Nystroem features; they are listed in `nystroem_tasks_`.",
        [Interval(Integral, 2, None, closed="left")],
        2000,
    ),
    "verbose": Parameter("int", "1 shows a progress bar.", ["verbose"], 0),
}

_ATTRIBUTES: dict[str, tuple[str, str]] = {
    "tasks_": ("array of shape (T,)", "Task labels; in a stream, in order of first appearance."),
    "kernel_weights_": (
        "array of shape (T, K)",
        "Kernel weights. They sum to one for every task, because pairs determine only their ratios.",
    ),
    "objective_": ("float", "The sum of the machines' objectives; NaN with Nystroem features."),
    "duality_gap_": (
        "float",
        "Upper bound on the distance of `objective_` from its optimum at these kernel weights; NaN with Nystroem "
        "features.",
    ),
    "history_": ("dict of arrays", "`round`, `mistake_rate` over all rounds so far, `recent_mistake_rate`."),
    "n_iter_": ("int", "Number of rounds."),
    "n_skipped_": ("int", "Number of rows of the stream without a partner."),
    "nystroem_tasks_": ("array", "Tasks with Nystroem features."),
    "unfitted_tasks_": (
        "dict from task to str",
        "Tasks of a stream that cannot be fitted yet, and the reasons. `predict` raises an error for them.",
    ),
    "stream_": (
        "Stream or None",
        "State for `partial_fit`: the online solver and at most `reservoir` rows of each task. None if the model "
        "cannot be continued.",
    ),
}


class _TwoStage(PaperEstimator):
    def specification(self) -> TwoStageFit:
        return make_fit(TwoStageFit, self)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, tasks: Any = None, classes: Any = None):
        """Continue with the next rows of a stream; machines are fitted when they are first needed.

        Every row is paired with a random row of its task, from a sample of `reservoir` rows or from this call. The
        machine of the task is fitted on the same sample. A row that is the only one of its task has no partner; it is
        skipped and counted in `n_skipped_`. Kernels are fitted on the rows of the first call, or by an earlier `fit`.
        New tasks start with weights of zero, unrelated to other tasks.

        Parameters
        ----------
        X, y, tasks
            As for `fit`; `y` of the same form in every call.
        classes : array, optional
            All classes of the stream; other classes then raise an error.

        Returns
        -------
        self : object
        """
        specification, first = self.specification(), "stream_" not in vars(self)
        if specification.stream_fault:
            raise ValueError(specification.stream_fault)
        piece = self.read_rows(X, y, tasks, reset=first)
        if not first and piece.form != self.data_form_:
            raise ValueError(f"this model was fitted on {self.data_form_} data, but got {piece.form} data")
        found = np.unique(np.concatenate(piece.y)) if is_classifier(self) else None
        if found is not None and classes is not None and len(unknown := np.setdiff1d(found, classes)):
            raise ValueError(f"y has classes {listing(unknown)}, which are not among classes={listing(list(classes))}")
        if not first and self.stream_ is None:
            raise ValueError("this model was fitted with parameters that do not allow partial_fit: fit it again")
        known = [] if found is None else getattr(self, "classes_", found)
        with Workers(1):
            self.store(specification.continue_stream(getattr(self, "stream_", None), piece, self.verbose))
        if found is not None:
            self.classes_ = np.union1d(known, found)
        return self

    def read_queries(self, X: Any, tasks: Any) -> Queries:
        """Return the validated arguments of `predict`; fit the machines of a stream; raise for tasks without one."""
        check_is_fitted(self)
        if "functions_" not in vars(self):
            plan = self.specification().machines_of_stream(self.stream_, self.kernel_weights_)
            options = self.run_options()
            check_memory(plan.memory(count_workers(options.n_jobs)))
            for name, value in plan.run(options).attributes.items():
                # The machines see only a sample of the rows: the kernel weights and classes are those of the stream.
                if name not in vars(self):
                    setattr(self, name, value)
        queries = super().read_queries(X, tasks)
        if self.unfitted_tasks_:
            used = self.tasks_ if queries.codes is None else self.tasks_[queries.codes[queries.codes >= 0]]
            for task in np.unique(used).tolist():
                if task in self.unfitted_tasks_:
                    raise ValueError(self.unfitted_tasks_[task])
        return queries


@describe(KERNEL_MACHINE, _ATTRIBUTES, _NAMES, **_PARAMETERS)
class TwoStageMKMTRLClassifier(_TwoStage, PaperClassifier):
    """Two-stage online MK-MTRL for classification, for data whose Gram matrices do not fit in memory, and for streams.

    Stage 1 learns kernel weights and the task relationship from pairs of rows: the combined kernel should be positive
    if both rows have the same class, and negative otherwise (Algorithm 2 of the paper). It needs no Gram matrices and
    no T x T matrices. Stage 2 fits one kernel machine for each task, one task at a time. `duality_gap_` certifies only
    the machines, at the weights of stage 1; `MKMTRLClassifier` also certifies the weights.

    Examples
    --------
    >>> from kernelkin import TwoStageMKMTRLClassifier
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, regression=False, random_state=0)
    >>> model = TwoStageMKMTRLClassifier(n_rounds=2000, random_state=0).fit(data.data, data.target, tasks=data.tasks)
    >>> model.kernel_weights_.shape
    (3, 6)
    """


@describe(KERNEL_MACHINE, _ATTRIBUTES, _NAMES, **_PARAMETERS)
class TwoStageMKMTRLRegressor(_TwoStage, PaperRegressor):
    """Two-stage online MK-MTRL for regression, for data whose Gram matrices do not fit in memory, and for streams.

    See `TwoStageMKMTRLClassifier`. For regression, the combined kernel should be positive if both targets are on the
    same side of the task's mean, and negative otherwise. The weight of a pair is the product of the distances of the
    two targets from the mean, in standard deviations.

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
