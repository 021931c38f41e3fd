"""Two-stage online MK-MTRL: learn kernel weights from pairs of rows, then fit one machine per task."""

from __future__ import annotations

from numbers import Integral

from sklearn.utils._param_validation import Interval, StrOptions

from ...parameters import COUNT, KERNEL_MACHINE, POSITIVE, Parameter, describe
from ..fitting.two_stage import TwoStageFit
from .base import PaperClassifier, PaperRegressor
from .machines import make_fit

_NAMES = (
    "kernels * C mu shrinkage min_rank targets n_rounds update refresh average center_pairs max_exact "
    "normalize task_column tol n_jobs random_state verbose"
)
_PARAMETERS: dict[str, Parameter] = {
    "mu": Parameter(
        "float",
        'Steps are divided by mu. With ``update="perceptron"`` it only rescales all weights and has no effect.',
        POSITIVE,
        1.0,
    ),
    "n_rounds": Parameter("int", "Number of pairs of rows that are drawn.", COUNT, 100_000),
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
        "bool", "Whether to return the average weights of all rounds, not the last ones.", ["boolean"], True
    ),
    "center_pairs": Parameter(
        "bool",
        "Whether to subtract the mean over a task's pairs from their kernel values, like an intercept. Without it, a "
        "combination of non-negative kernels is never negative, and so wrong for all pairs of different classes. The "
        "published algorithm does not centre pairs.",
        ["boolean"],
        True,
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
    "nystroem_tasks_": ("array", "Tasks with Nystroem features."),
}


@describe(KERNEL_MACHINE, _ATTRIBUTES, _NAMES, **_PARAMETERS)
class TwoStageMKMTRLClassifier(PaperClassifier):
    """Two-stage online MK-MTRL for classification, for data whose Gram matrices do not fit in memory.

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

    def specification(self) -> TwoStageFit:
        return make_fit(TwoStageFit, self)


@describe(KERNEL_MACHINE, _ATTRIBUTES, _NAMES, **_PARAMETERS)
class TwoStageMKMTRLRegressor(PaperRegressor):
    """Two-stage online MK-MTRL for regression, for data whose Gram matrices do not fit in memory.

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

    specification = TwoStageMKMTRLClassifier.specification
