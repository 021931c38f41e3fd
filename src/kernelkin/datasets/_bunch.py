"""Return values of the loaders: a Bunch or a tuple, of arrays or pandas objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.utils import Bunch


def make_bunch(
    *parts: tuple[Any, ...],
    feature_names: Sequence[str],
    target_columns: str | Sequence[str],
    return_X_y: bool,
    as_frame: bool,
    **entries: Any,
) -> Any:
    """Return a Bunch or, with `return_X_y`, only the training arrays; pandas objects with `as_frame`.

    Each of `parts` (all rows, or training and test rows) has features (n, d), targets (n,) or (n, T) and, for long
    data, the task of each row (n,). `target_columns` are the names of the targets in a frame.
    """
    frame = None
    if as_frame:
        import pandas as pd

        one = isinstance(target_columns, str)
        parts = tuple(
            (
                pd.DataFrame(data, columns=list(feature_names)),
                pd.Series(target, name=target_columns) if one else pd.DataFrame(target, columns=list(target_columns)),
                *(pd.Series(labels, name="task") for labels in tasks),
            )
            for data, target, *tasks in parts
        )
        frame = pd.concat(parts[0], axis=1)
    if return_X_y:
        return tuple(parts[0])
    named = {
        name + suffix: values
        for part, suffix in zip(parts, ("", "_test"), strict=False)
        for name, values in zip(("data", "target", "tasks"), part, strict=False)
    }
    return Bunch(**named, frame=frame, feature_names=list(feature_names), **entries)
