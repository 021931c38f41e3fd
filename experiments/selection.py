"""Parameters by cross-validation on the training rows, and a fit with the best ones."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from kernelkin.paper.model_selection import MultiTaskCV

from .protocol import Metric, Model, Split


def fit_best(model: Model, split: Split, metric: Metric, seed: int) -> tuple[Any, dict[str, Any]]:
    """The model fitted on all training rows with the parameters of the best cross-validated score, and these."""
    given = {} if split.tasks is None else {"tasks": split.tasks}
    if not model.grid:
        estimator = clone(model.estimator)
        if "cv" in estimator.get_params(deep=False):
            estimator.set_params(cv=model.n_splits, random_state=seed)
        fitted = estimator.fit(split.X, split.y, **given)
        members = [(member["name"], member["weight"]) for member in getattr(fitted, "members_", ())]
        return fitted, {"members": members} if members else getattr(fitted, "chosen_", {})
    # One generator for all models of a run: they see the same folds.
    chooser = model.estimator if model.chooser is None else model.chooser
    cv = MultiTaskCV(chooser, model.grid, cv=model.n_splits, scoring=metric.scoring, random_state=seed, n_jobs=1)
    cv.fit(split.X, split.y, **given)
    if model.chooser is not None:
        return clone(model.estimator).set_params(**cv.best_params_).fit(split.X, split.y, **given), cv.best_params_
    return cv.best_estimator_, cv.best_params_
