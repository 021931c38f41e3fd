"""The result of `task_relations`, and what it says in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import listing

_ARRAYS = ("tasks", "likeness", "intervals", "groups", "linkage", "sizes")


@dataclass(frozen=True)
class TaskRelations:
    """How alike tasks are, and whether that is more than chance.

    Parameters
    ----------
    tasks : array of shape (T,)
        Task labels, in the order of everything below.
    structured : bool
        Whether `p_value` is at most `alpha`: the tasks do not all follow one function.
    p_value : float
        Of one function for all tasks, levels apart.
    likeness : array of shape (T, T)
        One value for each pair of groups, ones on the diagonal; without structure one value for all pairs.
    intervals : array of shape (T, T, 2)
        Their lower and upper ends.
    groups : array of shape (T,) of int
        Tasks of one label could not be told apart; groups were. All zero without structure.
    shares_more : bool
        Whether there is structure and `shared_p_value` is at most `alpha`: some tasks share more than what all tasks
        have in common.
    shared_p_value : float
        Of deviations from the common function that have nothing to do with each other.
    linkage : array of shape (T - 1, 4)
        The tree of tasks in scipy's form; heights are the log evidence against joining.
    null, reason : str
        How targets without structure were made ("permutation" or "simulation"), and why so.
    alpha : float
        Level of the tests, and of the intervals (1 - alpha).
    n_permutations : int
        Draws without structure.
    sizes : array of shape (T,) of int
        Rows of each task.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor, task_relations
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 2)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] + 0.3 * rng.normal(size=90)
    >>> model = MKMTRLRegressor().fit(X, y, tasks=tasks)
    >>> relations = task_relations(model, X, y, tasks, random_state=0)
    >>> relations.headline()
    'No structure found (p = ...): nothing speaks against 3 tasks that follow one function, levels apart.'
    """

    tasks: np.ndarray
    structured: bool
    p_value: float
    likeness: np.ndarray
    intervals: np.ndarray
    groups: np.ndarray
    shares_more: bool
    shared_p_value: float
    linkage: np.ndarray
    null: str
    reason: str
    alpha: float
    n_permutations: int
    sizes: np.ndarray

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.groups.max()) + 1

    def members(self) -> list[np.ndarray]:
        """The task labels of each group."""
        return [self.tasks[self.groups == g] for g in range(self.n_groups)]

    def related_tasks(self, task: Any, n: int = 10) -> dict[Any, float]:
        """Return the tasks most like one task, and their likeness, the largest first.

        Parameters
        ----------
        task : label
            One of `tasks`.
        n : int, default 10
            Number of tasks to return, at most.

        Returns
        -------
        likeness : dict from task to float
            Without structure all values are the same.
        """
        found = np.flatnonzero(self.tasks == task)
        if not len(found):
            raise ValueError(f"task {task!r} was not in training")
        t = int(found[0])
        order = np.argsort(-self.likeness[t], kind="stable")
        order = order[order != t][:n]
        return dict(zip(self.tasks[order].tolist(), self.likeness[t, order].tolist(), strict=True))

    def __str__(self) -> str:
        return " ".join([self.headline(), *self._details(), self._method()])

    def headline(self) -> str:
        """One sentence: whether there is structure, and how many groups."""
        p = f"p = {self.p_value:.3g}"
        one = "follow one function, levels apart"
        if not self.structured:
            return f"No structure found ({p}): nothing speaks against {len(self.tasks)} tasks that {one}."
        if self.n_groups == 1:
            return f"Structure found ({p}): the tasks do not all {one}, but no groups can be told apart."
        if self.n_groups == len(self.tasks):
            return f"Structure found ({p}): the tasks do not {one}, and no two of them pass as one."
        return f"Structure found ({p}): the tasks do not all {one}. {self.n_groups} groups can be told apart."

    def _details(self) -> list[str]:
        if not self.structured:
            return [self._common_likeness()]
        found = []
        if 1 < self.n_groups < len(self.tasks):
            named = "; ".join(f"({g + 1}) {listing(part, 6)}" for g, part in enumerate(self.members()[:10]))
            found.append(f"Groups: {named}{'; ...' if self.n_groups > 10 else ''}.")
        if self.n_groups > 1:
            between = self.likeness[self.groups[:, np.newaxis] != self.groups]
            found.append(f"Likeness between groups: {between.min():.2f} to {between.max():.2f}.")
        p = f"p = {self.shared_p_value:.3g}"
        if self.shares_more:
            found.append(f"Some tasks share more than the function that all tasks have in common ({p}).")
        else:
            found.append(f"No tasks were found to share more than the function that all tasks have in common ({p}).")
        return found

    def _common_likeness(self) -> str:
        low, high = self.intervals[0, -1]
        value, level = self.likeness[0, -1], f"{1 - self.alpha:.0%}"
        if low <= -1 and high >= 1:
            return "The likeness of the tasks is not determined by these rows."
        return f"Likeness of any two tasks: {value:.2f} ({level} interval {low:.2f} to {high:.2f})."

    def _method(self) -> str:
        how = "rows dealt to tasks at random" if self.null == "permutation" else "targets simulated without structure"
        return f"Compared with {self.n_permutations} draws: {how}, because {self.reason}."

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and texts, for files and pages; likeness and intervals are those of pairs of groups."""
        found = {name: value for name, value in vars(self).items() if name not in _ARRAYS}
        arrays = {name: getattr(self, name).tolist() for name in ("tasks", "groups", "linkage", "sizes")}
        likeness, intervals = self._by_groups()
        return {**found, **arrays, "likeness": likeness.tolist(), "intervals": intervals.tolist()}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> TaskRelations:
        """The same from what `to_dict` returned."""
        read: dict[str, Any] = {name: np.asarray(found[name]) for name in _ARRAYS}
        groups, own = read["groups"], np.arange(len(read["groups"]))
        for name in ("likeness", "intervals"):
            read[name] = read[name][groups][:, groups]
            read[name][own, own] = 1.0
        return cls(**{**found, **read})

    def _by_groups(self) -> tuple[np.ndarray, np.ndarray]:
        """Likeness (G, G) and intervals (G, G, 2) of two tasks of each pair of groups."""
        first = np.array([np.flatnonzero(self.groups == g)[0] for g in range(self.n_groups)])
        last = np.array([np.flatnonzero(self.groups == g)[-1] for g in range(self.n_groups)])
        return self.likeness[np.ix_(first, last)], self.intervals[np.ix_(first, last)]
