"""Time of `MultiTaskCV` against `GridSearchCV` around the same estimator, on the landmine fields.

80 rows of each of 19 fields, polynomial kernels of degree 1 to 5, the 7 values of C and 11 of mu of the paper, and the
same 5 folds for both, on one thread. Times are the processor's; ours has the last fit on all rows in it, the other has
not. `GridSearchCV` gets the tasks as a column of X, and scores by the mean over tasks of the accuracy, as ours does.
The model depends on mu/C^3 alone, so candidates come in sets of equal ones: the choice is the same if mu/C^3 is,
and otherwise each table's score of both choices tells by how much it differs.

`--every 7` times `GridSearchCV` on every seventh candidate only, and scales the time.

    KERNELKIN_DATA=folder python benchmarks/cross_validation.py [--every 7]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.model_selection import GridSearchCV, ParameterGrid
from threadpoolctl import threadpool_limits

from kernelkin import MKMTRLClassifier, polynomial_kernels
from kernelkin.data import read_training
from kernelkin.datasets import load_landmine
from kernelkin.model_selection import MultiTaskCV
from kernelkin.model_selection.folds import make_folds

GRID = {"C": np.logspace(-3, 3, 7), "mu": np.logspace(-7, 3, 11)}
ROWS = 80


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


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="time GridSearchCV on every n-th candidate only")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    X, y = landmine(args.seed)
    model = MKMTRLClassifier(polynomial_kernels((1, 2, 3, 4, 5)), class_weight="balanced", task_column=0, n_jobs=1)
    data = read_training(model, X, y, None, None, classification=True)
    folds = [fold.rows(data) for fold in make_folds(data, 5, classification=True, random_state=args.seed)]
    candidates = list(ParameterGrid(GRID))
    some = [{name: [value] for name, value in params.items()} for params in candidates[:: args.every]]
    model.fit(X, y)  # compiles
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        ours = MultiTaskCV(model, GRID, cv=folds, n_jobs=1).fit(X, y)
        our_time = time.process_time() - began
        began = time.process_time()
        theirs = GridSearchCV(model, some, cv=folds, n_jobs=1, refit=False).fit(X, y)
        share = len(some) / len(candidates)
        their_time = (time.process_time() - began) / share
    our_scores = ours.cv_results_["mean_test_score"]
    their_scores = theirs.cv_results_["mean_test_score"]
    difference = np.abs(our_scores[:: args.every] - their_scores).max()
    their_choice = theirs.best_index_ * args.every
    nu = np.array([params["mu"] / params["C"] ** 3 for params in candidates])
    print(f"{len(candidates)} candidates, {len(folds)} folds; GridSearchCV on {len(some)} of them")
    print(f"GridSearchCV {their_time:7.1f} s   chooses {theirs.best_params_}, score {theirs.best_score_:.4f}")
    print(f"MultiTaskCV  {our_time:7.1f} s   chooses {ours.best_params_}, score {ours.best_score_:.4f}")
    print(f"ratio {their_time / our_time:.1f}; scores differ by {difference:.4f} at most")
    print(f"mu/C^3 {nu[their_choice]:.0e} and {nu[ours.best_index_]:.0e}; our score of both", end=" ")
    print(f"{our_scores[their_choice]:.4f} {our_scores[ours.best_index_]:.4f}", end="")
    if args.every == 1:
        print(f", theirs {their_scores[their_choice]:.4f} {their_scores[ours.best_index_]:.4f}", end="")
    print(f"; standard error {ours.cv_results_['standard_error'][ours.best_index_]:.4f}")


if __name__ == "__main__":
    main()
