"""`task_relations`: test for structure among tasks and find groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..data.arrays import listing
from ..kin.losses import LOSSES
from .pooled import PooledRows
from .structure import choose_null, evidence_tree, group_likeness, structure_p_values, tested_groups


@dataclass(frozen=True)
class TaskRelations:
    """Likeness of tasks, and a test of whether they differ.

    Parameters
    ----------
    tasks : array of shape (T,)
        Task labels, in the order of the arrays below, without tasks that have one row.
    structured : bool
        Whether `p_value` is at most `alpha`: the tasks do not all share one function up to an offset.
    p_value : float
        p-value of the hypothesis that all tasks share one function, up to an offset for each task.
    pairs : array of shape (G, G, 3)
        Likeness of two tasks of each pair of groups, with the lower and upper ends of its interval.
    groups : array of shape (T,) of int
        Group of each task. Tasks of the same group could not be distinguished. All zero without structure.
    linkage : array of shape (T - 1, 4)
        The tree of tasks in scipy's format; heights are the log evidence against joining.
    null, reason : str
        How targets without structure were drawn ("permutation" or "simulation"), and why.
    alpha : float
        Level of the tests, and of the intervals (1 - alpha).
    n_permutations : int
        Number of draws without structure.
    left_out : array
        Labels of the tasks with one row, which are in no group.
    """

    tasks: np.ndarray
    structured: bool
    p_value: float
    pairs: np.ndarray
    groups: np.ndarray
    linkage: np.ndarray
    null: str
    reason: str
    alpha: float
    n_permutations: int
    left_out: np.ndarray

    @property
    def likeness(self) -> np.ndarray:
        """Correlations (T, T) of the functions of tasks: one value for each pair of groups, ones on the diagonal."""
        return self._pairs_of_tasks()[:, :, 0]

    @property
    def intervals(self) -> np.ndarray:
        """Lower and upper ends (T, T, 2) of the intervals for `likeness`."""
        return self._pairs_of_tasks()[:, :, 1:]

    def _pairs_of_tasks(self) -> np.ndarray:
        found, own = self.pairs[self.groups][:, self.groups], np.arange(len(self.groups))
        found[own, own] = 1.0
        return found

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.groups.max()) + 1

    def members(self) -> list[np.ndarray]:
        """Return the task labels of each group."""
        return [self.tasks[self.groups == g] for g in range(self.n_groups)]

    def headline(self) -> str:
        """Return one sentence: whether there is structure, and how many groups."""
        p, T = f"p = {self.p_value:.3g}", len(self.tasks)
        one = "share one function up to an offset"
        if not self.structured:
            return f"No structure found ({p}): these rows do not show that {T} groups differ by more than an offset."
        if self.n_groups == 1:
            return f"Structure found ({p}): the groups do not all {one}, but no clusters of them can be told apart."
        if self.n_groups == T:
            return f"Structure found ({p}): the groups do not {one}, and any two of them can be told apart."
        return f"Structure found ({p}): the groups do not all {one}. {self.n_groups} clusters can be told apart."

    def __str__(self) -> str:
        found, level = [self.headline()], f"{1 - self.alpha:.0%}"
        if self.n_groups == 1:
            (low, high), value = self.intervals[0, -1], self.likeness[0, -1]
            known = f"Likeness of any two groups: {value:.2f} ({level} interval {low:.2f} to {high:.2f})."
            unknown = "The likeness of the groups is not determined by these rows."
            found.append(unknown if low <= -1 and high >= 1 else known)
        else:
            if self.n_groups < len(self.tasks):
                named = "; ".join(f"({g + 1}) {listing(part, 6)}" for g, part in enumerate(self.members()[:10]))
                found.append(f"Clusters: {named}{'; ...' if self.n_groups > 10 else ''}.")
            between = self.likeness[self.groups[:, None] != self.groups]
            ends = dict.fromkeys(f"{end:.2f}" for end in (between.min(), between.max()))
            found.append(f"Likeness between clusters: {' to '.join(ends)}.")
        if len(self.left_out):
            found.append(f"Groups with one row are in no cluster: {listing(self.left_out, 6)}.")
        how = "rows assigned to groups at random"
        if self.null != "permutation":
            how = "targets simulated without structure; rows were not assigned to groups at random"
        return " ".join([*found, f"Compared with {self.n_permutations} draws of {how}, because {self.reason}."])


def task_relations(
    model: Any,
    X: Any,
    y: Any,
    tasks: Any = None,
    *,
    n_permutations: int = 199,
    alpha: float = 0.05,
    random_state: Any = None,
) -> TaskRelations:
    """Test whether the functions of tasks differ, and find groups of tasks with the same function.

    One function for all tasks, plus a level for each task, is fitted to these rows with the kernels of the model, or
    the default kernels if the model has no kernel weights. The residuals of different tasks are then compared. Products
    of a row with itself are left out, so that noise and task sizes do not look like differences. The spread is compared
    with that of draws without structure. If the tasks have similar inputs, levels and noise, these draws assign rows to
    tasks at random. Otherwise targets are simulated from the common function, levels, and residuals with random signs.

    Groups are found in a tree of the tasks. A cluster is split if the test rejects one function for its tasks; a
    cluster of q tasks is tested at level ``alpha * q / T``. Groups whose functions have a correlation above 0.99 are
    joined again. Tasks with one row are left out.

    Parameters
    ----------
    model : fitted model of this library
    X, y, tasks : as for `fit`
        Rows with targets, usually the training rows.
    n_permutations : int, default 199
        Number of draws without structure.
    alpha : float, default 0.05
        Level of the tests; intervals have level ``1 - alpha``.
    random_state : int, RandomState or None

    Returns
    -------
    relations : TaskRelations

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor, task_relations
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(240, 2)), np.repeat(["a", "b", "c", "d"], 60)
    >>> y = np.where(np.isin(tasks, ["a", "b"]), X[:, 0], -X[:, 0]) + 0.3 * rng.normal(size=240)
    >>> model = MKMTRLRegressor().fit(X, y, tasks=tasks)
    >>> relations = task_relations(model, X, y, tasks, random_state=0)
    >>> relations.structured, relations.groups.tolist()
    (True, [0, 0, 1, 1])
    """
    check_is_fitted(model)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha!r}")
    if n_permutations < 39:
        raise ValueError(f"n_permutations must be 39 or more, got {n_permutations!r}")
    if not LOSSES.get(getattr(model, "loss", "squared"), LOSSES["squared"]).is_linear:
        raise ValueError(f"task_relations compares numbers and classes, and not targets of loss={model.loss!r}")
    encoder = getattr(model, "encoder_", None)
    data = clone(model).training_data(X, y, tasks, encode=None if encoder is None else encoder.encode)
    if data.labels.tolist() != model.tasks_.tolist():
        raise ValueError("the tasks of these rows are not those of the model")
    several = np.array([len(rows) > 1 for rows in data.rows])
    if several.sum() < 2:
        raise ValueError("relations need at least two tasks with two or more rows")
    left_out, data = data.labels[~several], data.select(np.flatnonzero(several))
    rows, rng = PooledRows.of(model, data, classification=is_classifier(model)), check_random_state(random_state)
    null, reason = choose_null(rows)
    p_value = structure_p_values(rows, null, n_permutations, rng)[0]
    linkage = evidence_tree(rows)
    tested = tested_groups(
        linkage, lambda part: structure_p_values(rows.select(part), null, n_permutations, rng)[1], p_value, alpha
    )
    groups, pairs = group_likeness(rows, tested, 1 - alpha, rng)
    if groups.max() < tested.max():
        linkage = evidence_tree(rows, groups)
    return TaskRelations(
        tasks=data.labels,
        structured=p_value <= alpha,
        p_value=p_value,
        pairs=pairs,
        groups=groups,
        linkage=linkage,
        null=null,
        reason=reason,
        alpha=alpha,
        n_permutations=n_permutations,
        left_out=left_out,
    )
