"""Whether sharing helps on a table, by cross-validation in its training rows; and the test of the tasks' relations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from ..progress import Progress
from ..relations import SharingReport, sharing_report, task_relations
from ..tables import TableSchema
from .training import Recipe

if TYPE_CHECKING:
    from pandas import DataFrame

# Without --sharing-repeats: repetitions at most, and seconds within which a further one must end.
REPEATS, SECONDS = 2, 15.0
# There are fewer folds where fits are slow: with more rows, and where the model searches.
MANY_ROWS, FOLDS, FEWER_FOLDS = 1000, 5, 3
# With more tasks the test takes minutes.
MOST_TASKS = 400
PERMUTATIONS = 99


def verdict_on_sharing(
    recipe: Recipe, schema: TableSchema, frame: DataFrame, progress: Progress
) -> SharingReport | str:
    """The report on a model and these training rows; a reason in words where there can be none.

    One step of the progress.
    """
    given = recipe.arguments.sharing_repeats
    model = recipe.unfitted(schema, progress)
    if "callback" in model.get_params(deep=False):
        # The step counts fits, not the candidates of each search.
        model.set_params(callback=None)
    progress.begin(f"does sharing help: cross-validation in {len(frame)} training rows")
    try:
        return sharing_report(
            model,
            schema.encode_table(frame),
            schema.targets(frame),
            schema.tasks(frame),
            cv=FEWER_FOLDS if len(frame) > MANY_ROWS or "cv" in model.get_params(deep=False) else FOLDS,
            n_repeats=REPEATS if given is None else given,
            name=recipe.name,
            target_scale=schema.target_scales[0] if schema.regression and schema.task is not None else 1.0,
            random_state=recipe.arguments.seed,
            time_limit=SECONDS if given is None else None,
            callback=lambda done, of, text: progress.part(done, of, f"{text}, fit"),
        )
    except ValueError as error:
        return f"Whether sharing helps is left open: {error}."


def tested_relations(model: Any, X: np.ndarray, y: Any, tasks: np.ndarray | None, seed: int) -> dict[str, Any] | None:
    """The test of the tasks' relations, for the file of a model; None for very many tasks, or too few with two rows."""
    sizes = None if tasks is None else np.unique(tasks, return_counts=True)[1]
    if not 2 <= len(model.tasks_) <= MOST_TASKS or (sizes is not None and (sizes > 1).sum() < 2):
        return None
    rng = check_random_state(seed)
    return task_relations(model, X, y, tasks, n_permutations=PERMUTATIONS, random_state=rng).to_dict()
