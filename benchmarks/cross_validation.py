"""Time of `MultiTaskCV` against `GridSearchCV` around the same estimator, on the landmine fields.

80 rows of each of 19 fields, polynomial kernels of degree 1 to 5, the 7 values of C and 11 of mu of the paper, and the
same 5 folds for both, on one thread. Times are the processor's; ours has the last fit on all rows in it, the other has
not. `GridSearchCV` gets the tasks as a column of X, and scores by the mean over tasks of the accuracy, as ours does.
The model depends on mu/C^3 alone, so candidates come in sets of equal ones: the choice is the same if mu/C^3 is, or if
each finds both choices equally good. Needs the landmine data.
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import GridSearchCV, ParameterGrid

from experiments.data_sets import load_landmine
from kernelkin import MKMTRLClassifier, polynomial_kernels
from kernelkin.data.folds import make_folds
from kernelkin.paper.model_selection import MultiTaskCV

from .harness import OURS, Contender, Goal, Report, figure, pinned, race

THEIRS = "GridSearchCV"
GRID = {"C": np.logspace(-3, 3, 7), "mu": np.logspace(-7, 3, 11)}
ROWS = 80
DIFFERENCE, PLACE = "median difference of scores", "log10(mu/C^3)"
# Scores that differ by less are the same number.
ROUNDING = 1e-9


def landmine(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with their field's number in column 0, standardised; and labels. At least two positives a field."""
    rng = np.random.default_rng(seed)
    fields = load_landmine("usual")
    chosen: list[np.ndarray] = []
    codes = np.unique(fields.tasks, return_inverse=True)[1]
    for task in range(codes.max() + 1):
        rows = rng.permutation(np.flatnonzero(codes == task))
        positive = rows[fields.target[rows] == 1][:2]
        chosen += [positive, rows[~np.isin(rows, positive)][: ROWS - 2]]
    rows = np.concatenate(chosen)
    X = fields.data[rows]
    return np.column_stack([codes[rows], (X - X.mean(axis=0)) / X.std(axis=0)]), fields.target[rows]


def scores(search) -> np.ndarray:
    return search.cv_results_["mean_test_score"]


def judge(search) -> dict[str, float]:
    chosen = search.best_params_
    return {"score": search.best_score_, PLACE: np.log10(chosen["mu"] / chosen["C"] ** 3)}


def same_choice(ours, theirs) -> bool:
    """Whether both choose the same model, or each finds the other's choice as good as its own."""
    if abs(judge(ours)[PLACE] - judge(theirs)[PLACE]) <= ROUNDING:
        return True
    chosen = [search.best_index_ for search in (ours, theirs)]
    return all(np.ptp(scores(search)[chosen]) <= ROUNDING for search in (ours, theirs))


def run(repetitions: int, seed: int = 0) -> Report:
    X, y = landmine(seed)
    model = MKMTRLClassifier(polynomial_kernels((1, 2, 3, 4, 5)), class_weight="balanced", task_column=0, n_jobs=1)
    data = model.training_data(X, y)
    folds = [fold.rows(data) for fold in make_folds(data, 5, classification=True, random_state=seed)]
    ours = MultiTaskCV(model, GRID, cv=folds, scoring="accuracy", n_jobs=1)
    theirs = GridSearchCV(model, GRID, cv=folds, n_jobs=1, refit=False)

    def judge_theirs(search) -> dict[str, float]:
        # The largest is that of candidates whose weights are zero but for rounding, which no accuracy can compare.
        return {**judge(search), DIFFERENCE: np.median(np.abs(scores(ours) - scores(search)))}

    with pinned(1):
        rows = race(
            f"{len(ParameterGrid(GRID))} candidates, 5 folds",
            [Contender(OURS, lambda: ours.fit(X, y), judge), Contender(THEIRS, lambda: theirs.fit(X, y), judge_theirs)],
            repetitions,
        )
        times, same = rows[1].times, same_choice(ours, theirs)
        place, differ = figure(rows, OURS, PLACE), figure(rows, THEIRS, DIFFERENCE)
        choice = f"mu/C^3 = 1e{place:.0f}, theirs 1e{figure(rows, THEIRS, PLACE):.0f}; scores differ by {differ:.4f}"
        goals = [Goal(">= 10x GridSearchCV", f"{times:.1f}x", times >= 10), Goal("the same choice", choice, same)]
        return Report("cross-validation path, landmine", rows, goals)
