"""Time of `MultiTaskCV` against `GridSearchCV` around the same estimator, on the landmine fields.

80 rows of each of 19 fields, polynomial kernels of degree 1 to 5, the 7 values of C and 11 of mu of the paper, and the
same 5 folds for both, on one thread. Times are the processor's; ours has the last fit on all rows in it, the other has
not. `GridSearchCV` gets the tasks as a column of X, and scores by the mean over tasks of the accuracy, as ours does.
The model depends on mu/C^3 alone, so candidates come in sets of equal ones: the choice is the same if mu/C^3 is,
and otherwise each table's score of both choices tells by how much it differs.

`GridSearchCV` is timed on some candidates only, and its time scaled: they are every seventh, which has all values of C
and of mu. Needs the landmine data.
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import GridSearchCV, ParameterGrid

from kernelkin import MKMTRLClassifier, polynomial_kernels
from kernelkin.data import read_training
from kernelkin.datasets import load_landmine
from kernelkin.model_selection import MultiTaskCV
from kernelkin.model_selection.folds import make_folds

from .harness import OURS, Contender, Goal, Report, figure, pinned, race

GRID = {"C": np.logspace(-3, 3, 7), "mu": np.logspace(-7, 3, 11)}
ROWS = 80
DIFFERENCE = "median difference of scores"


def landmine(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with their field's number in column 0, standardised; and labels. At least two positives a field."""
    rng = np.random.default_rng(seed)
    fields = load_landmine("usual")
    chosen: list[np.ndarray] = []
    codes = np.unique(fields.tasks, return_inverse=True)[1]
    for task in range(codes.max() + 1):
        rows = rng.permutation(np.flatnonzero(codes == task))
        positive = rows[fields.y[rows] == 1][:2]
        chosen += [positive, rows[~np.isin(rows, positive)][: ROWS - 2]]
    rows = np.concatenate(chosen)
    X = fields.X[rows]
    return np.column_stack([codes[rows], (X - X.mean(axis=0)) / X.std(axis=0)]), fields.y[rows]


def run(repetitions: int, every: int = 7, seed: int = 0) -> Report:
    X, y = landmine(seed)
    model = MKMTRLClassifier(polynomial_kernels((1, 2, 3, 4, 5)), class_weight="balanced", task_column=0, n_jobs=1)
    data = read_training(model, X, y, None, None, classification=True)
    folds = [fold.rows(data) for fold in make_folds(data, 5, classification=True, random_state=seed)]
    candidates = list(ParameterGrid(GRID))
    some = [{name: [value] for name, value in params.items()} for params in candidates[::every]]
    share = len(some) / len(candidates)
    ours = MultiTaskCV(model, GRID, cv=folds, n_jobs=1)
    theirs = GridSearchCV(model, some, cv=folds, n_jobs=1, refit=False)

    def judge(search) -> dict[str, float]:
        chosen = search.best_params_
        return {"score": search.best_score_, "log10(mu/C^3)": np.log10(chosen["mu"] / chosen["C"] ** 3)}

    def judge_theirs(search) -> dict[str, float]:
        their_scores, our_scores = (s.cv_results_["mean_test_score"] for s in (search, ours))
        # The largest is that of candidates whose weights are zero but for rounding, which no accuracy can compare.
        return {**judge(search), DIFFERENCE: np.median(np.abs(our_scores[::every] - their_scores))}

    with pinned(1):
        rows = race(
            f"{len(candidates)} candidates, 5 folds",
            [
                Contender(OURS, lambda: ours.fit(X, y), judge),
                Contender(f"GridSearchCV, {len(some)} candidates", lambda: theirs.fit(X, y), judge_theirs),
            ],
            repetitions,
        )
        times = rows[1].times / share
        measured = f"{times:.1f}x, scaled to all; scores differ by {figure(rows, rows[1].contender, DIFFERENCE):.4f}"
        return Report("cross-validation path, landmine", rows, [Goal(">= 10x GridSearchCV", measured, times >= 10)])
