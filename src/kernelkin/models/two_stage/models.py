"""Two-stage online MK-MTRL: kernel weights from pairs of rows, then one machine for each task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..coupled import CoupledClassifier
from ..kinds import MultiKernelClassifier, MultiKernelRegressor
from .streaming import TwoStageEstimator


@dataclass(eq=False, repr=False, kw_only=True)
class TwoStageMKMTRLClassifier(CoupledClassifier, TwoStageEstimator, MultiKernelClassifier):
    """Two-stage online MK-MTRL for classification, for data whose Gram matrices do not fit in memory, and for streams.

    Stage 1 learns kernel weights and task relationship from pairs of rows: whether two rows are of one class should
    show in the sign of the combined kernel (the paper's Algorithm 2). It holds no Gram matrix and nothing of size T x
    T. Stage 2 fits one kernel machine for each task, one task at a time. `duality_gap_` certifies these machines at the
    weights of stage 1, not the weights: for that there is `MKMTRLClassifier`.

    Parameters
    ----------
    kernels, C, normalize, loss, class_weight, task_column, n_jobs
        As for `MKMTRLClassifier`.
    couplings : None, "common", "inputs" or dict
        As for `MKMTRLClassifier`: stage 1 is the same, and stage 2 fits linked tasks as one exact machine. A coupling
        has the mean of its tasks' kernel weights, and is as strong as the tasks' own parts.
    mu : float
        What steps are divided by. With ``update="perceptron"`` it scales all weights alike, and so changes nothing.
    shrinkage, min_rank : float
        The limits of the relationship, as for `MKMTRLClassifier`.
    n_rounds : int
        Pairs that `fit` draws. `partial_fit` plays one for each row.
    update : {"perceptron", "hinge"}
        Learn from pairs with the wrong sign, as the paper does, or from all whose margin is below one, which mostly
        finds better weights (``benchmarks/online_quality.py``).
    refresh : int, optional
        Mistakes between refreshes of the relationship. None: as many as there are tasks, and at least 100. A refresh
        costs as much as many rounds, and one before most tasks have learned anything shuts the others out.
    average : bool
        Whether the result is the average of the weights over rounds, or the last ones.
    center_pairs : bool
        Whether the mean of a task's pairs is subtracted from their kernel values, as an intercept would do. Without it
        the combination of kernels that are never negative has one sign, and is wrong about all pairs of the other. The
        paper's algorithm as printed has none.
    reservoir : int
        Rows of each task that `partial_fit` keeps.
    max_exact : int
        Tasks of more rows have a linear machine on Nystroem features; `nystroem_tasks_` names them.
    tol : float
        The relative duality gap of the machines.
    random_state : int, RandomState or None
        Seed of the pairs, the reservoirs and the landmarks.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    tasks_, classes_, task_classes_, kernels_, kernel_names_, dual_coef_, intercept_, effective_rank_, \
couplings_, coupling_weights_, part_shares_
        As for `MKMTRLClassifier`. In a stream, tasks are in the order in which they came.
    kernel_weights_ : array (T, K)
        Every task's sum to one: signs tell a direction and no length.
    relationship_ : Relationship
        Omega as factors; see `relationship_row`, `related_tasks`. `task_relationship_` and `task_correlation_` are
        dense, made when asked for, and refused above 20,000 tasks.
    objective_, duality_gap_ : float
        The sum of the machines' objectives, and how far at most it is above their optimum; NaN with Nystroem features.
    history_ : dict of arrays
        `round`, `mistake_rate` in all rounds up to it, `recent_mistake_rate`.
    n_iter_ : int, rounds played.
    n_skipped_ : int, rows of the stream that had no partner.
    nystroem_tasks_ : array, tasks with Nystroem features.

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
    >>> len(model.related_tasks("a"))
    2
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelClassifier._parameter_constraints,
        **TwoStageEstimator._online_constraints,
    }


@dataclass(eq=False, repr=False, kw_only=True)
class TwoStageMKMTRLRegressor(TwoStageEstimator, MultiKernelRegressor):
    """Two-stage online MK-MTRL for regression.

    A pair of rows belongs together where their targets are on the same side of the task's mean, and counts by how far
    they are from it: the round's weight is the product of the two distances, in standard deviations.

    Parameters
    ----------
    loss, epsilon, fit_intercept
        As for `MKMTRLRegressor`.
    kernels, C, couplings, mu, shrinkage, min_rank, normalize, n_rounds, update, refresh, average, center_pairs, \
reservoir, max_exact, task_column, tol, n_jobs, random_state, verbose
        As for `TwoStageMKMTRLClassifier`, which also lists the fitted attributes.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelRegressor._parameter_constraints,
        **TwoStageEstimator._online_constraints,
    }
