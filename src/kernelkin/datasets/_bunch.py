"""What loaders return: a Bunch, or the arrays alone; as arrays or as pandas objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import Bunch


@dataclass(frozen=True)
class Rows:
    """Features (n, d), targets (n,) or (n, T), and the task of each row (n,), None for wide or single-task data."""

    data: Any
    target: Any
    tasks: Any = None

    def take(self, rows: np.ndarray) -> Rows:
        """These rows of arrays."""
        return Rows(self.data[rows], self.target[rows], None if self.tasks is None else self.tasks[rows])

    def to_pandas(self, feature_names: Sequence[str], target_names: str | Sequence[str]) -> Rows:
        """A frame of features, a series or frame of targets, and a series named "task"."""
        import pandas as pd

        data = pd.DataFrame(self.data, columns=list(feature_names))
        if isinstance(target_names, str):
            target: Any = pd.Series(self.target, name=target_names)
        else:
            target = pd.DataFrame(self.target, columns=list(target_names))
        return Rows(data, target, None if self.tasks is None else pd.Series(self.tasks, name="task"))

    def frame(self) -> Any:
        """Features, targets and tasks of pandas rows side by side."""
        import pandas as pd

        return pd.concat([part for part in (self.data, self.target, self.tasks) if part is not None], axis=1)

    def items(self, suffix: str = "") -> dict[str, Any]:
        """The entries of a bunch."""
        entries = {"data": self.data, "target": self.target, "tasks": self.tasks}
        return {name + suffix: value for name, value in entries.items() if value is not None}


def make_bunch(
    rows: Rows,
    test: Rows | None = None,
    *,
    feature_names: Sequence[str],
    target_columns: str | Sequence[str],
    return_X_y: bool,
    as_frame: bool,
    **entries: Any,
) -> Any:
    """Return a Bunch, or with `return_X_y` the parts of `rows` that there are.

    Parameters
    ----------
    rows : Rows
        All rows, or the training rows where there are test rows.
    test : Rows, optional
        Test rows, which get the entries `data_test`, `target_test` and `tasks_test`.
    feature_names : sequence of str
        Names of the columns of the features.
    target_columns : str or sequence of str
        Name of the target, or of each of several, in a frame.
    return_X_y : bool
        Return a tuple of features, targets and, where there are any, tasks.
    as_frame : bool
        Return pandas objects.
    **entries
        Further entries of the bunch.
    """
    frame = None
    if as_frame:
        rows = rows.to_pandas(feature_names, target_columns)
        test = None if test is None else test.to_pandas(feature_names, target_columns)
        frame = None if return_X_y else rows.frame()
    if return_X_y:
        return tuple(rows.items().values())
    held_out = {} if test is None else test.items("_test")
    return Bunch(**rows.items(), **held_out, frame=frame, feature_names=list(feature_names), **entries)
