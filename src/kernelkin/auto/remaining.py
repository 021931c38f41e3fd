"""How long a search still takes, by what its groups of candidates have taken so far."""

from __future__ import annotations

from dataclasses import dataclass, field

# Shares of the trials that are kept after the first fold, of cheap and of costly groups; how much longer a trial of a
# costly group takes while none is measured; and the last fits on all rows, beside the search. Measured on shops (12 of
# 15 days, 8 of 40 days); the share of the time that was over and the one reported differ by at most 0.06 there.
KEPT = {False: 0.5, True: 0.7}
COSTLY = 3.0
LAST_FITS = 0.05


@dataclass
class GroupWork:
    """The work of one group of candidates.

    Attributes
    ----------
    n_trials : number of trials.
    is_costly : whether its candidates share parts.
    n_kept : number of trials that are tried on the other folds; None before that is decided.
    seconds : of the first fold; None before it was tried.
    is_finished : whether all folds were tried.
    """

    n_trials: int
    is_costly: bool
    n_kept: int | None = None
    seconds: float | None = None
    is_finished: bool = False


@dataclass
class Remaining:
    """The work that is left of a search over groups, on `n_folds` folds; `spent` seconds are behind it."""

    n_folds: int
    groups: dict[str, GroupWork]
    spent: float = 0.0
    _known: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})

    def screened(self, name: str, seconds: float) -> None:
        """The first fold of a group took so many seconds."""
        group = self.groups[name]
        group.seconds = seconds
        self.spent += seconds
        self._known[group.is_costly].append(seconds / group.n_trials)

    def kept(self, name: str, n_trials: int) -> None:
        """So many trials of a group are tried on the other folds."""
        self.groups[name].n_kept = n_trials
        self.groups[name].is_finished = not n_trials

    def finished(self, name: str, seconds: float) -> None:
        """The other folds of a group took so many seconds."""
        self.groups[name].is_finished = True
        self.spent += seconds

    @property
    def left(self) -> float:
        """Seconds, as expected now."""
        search = sum(map(self._left, self.groups.values()))
        return search + LAST_FITS * (self.spent + search)

    def _left(self, group: GroupWork) -> float:
        if group.is_finished:
            return 0.0
        each = self._seconds_of_trial(group)
        n_kept = KEPT[group.is_costly] * group.n_trials if group.n_kept is None else group.n_kept
        others = each * n_kept * (self.n_folds - 1)
        return others if group.seconds is not None else each * group.n_trials + others

    def _seconds_of_trial(self, group: GroupWork) -> float:
        """Seconds of a trial on a fold: of this group, of groups of its kind, or of the others."""
        if group.seconds is not None:
            return group.seconds / group.n_trials
        same, other = self._known[group.is_costly], self._known[not group.is_costly]
        if same:
            return sum(same) / len(same)
        factor = COSTLY if group.is_costly else 1 / COSTLY
        return factor * sum(other) / len(other) if other else 0.0
