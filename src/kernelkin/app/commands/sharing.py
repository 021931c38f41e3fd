"""Whether sharing helps on a table, from values for held-out rows; and the test of the tasks' relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ...data import TaskData
from ...model_selection import Fold
from ...relations import SharingReport, report_of_values, task_relations

# The models of the table that stand for an ablation; others keep their names.
STAND_FOR = {"IMKL": "independent", "AVG": "average", "STL": "single"}
# With more tasks the test takes minutes.
MOST_TASKS = 400
PERMUTATIONS = 99


def held_out_report(
    outputs: dict[str, list[list[np.ndarray]]],
    data: TaskData,
    X: np.ndarray,
    folds: Sequence[Fold],
    scoring: str,
    seed: int,
) -> SharingReport | None:
    """The first model beside the others, a pooled model and gradient boosting, on the same held-out rows.

    Parameters
    ----------
    outputs : for each model, fold and task, values (q_t, m) at the held-out rows
    data : tasks without features
    X : (n, d) the features of all rows
    folds : the folds
    scoring : name of the score; there is a report for "r2", "accuracy" and "roc_auc"
    seed : of what is random

    Returns
    -------
    report : SharingReport or None
    """
    if scoring not in ("r2", "accuracy", "roc_auc"):
        return None
    values = {
        STAND_FOR.get(name, name): [_held_out(of_folds, data, folds, scoring)] for name, of_folds in outputs.items()
    }
    return report_of_values(replace(data, X=X), values, list(folds), scoring, random_state=seed)


def _held_out(outputs: list[list[np.ndarray]], data: TaskData, folds: Sequence[Fold], scoring: str) -> list[np.ndarray]:
    """Values of each task in the order of its rows; labels, where the score is accuracy."""
    found = []
    for t, y in enumerate(data.y):
        values: np.ndarray = y.copy() if scoring == "accuracy" else np.full(len(y), np.nan)
        for fold, of_fold in zip(folds, outputs, strict=True):
            part = of_fold[t]
            if scoring == "accuracy":
                classes = np.unique(y[fold.kept[t]])
                best = (part[:, 0] > 0).astype(np.intp) if len(classes) == 2 else part.argmax(axis=1)
                values[fold.held[t]] = classes[best]
            else:
                values[fold.held[t]] = part[:, 0]
        found.append(values)
    return found


def tested_relations(model: Any, X: np.ndarray, y: Any, tasks: np.ndarray | None, seed: int) -> dict[str, Any] | None:
    """The test of the tasks' relations, for the file of a model; None for one task, or very many."""
    if not 2 <= len(model.tasks_) <= MOST_TASKS:
        return None
    rng = check_random_state(seed)
    return task_relations(model, X, y, tasks, n_permutations=PERMUTATIONS, random_state=rng).to_dict()
