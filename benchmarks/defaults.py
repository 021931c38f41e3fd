"""How good is a fit without tuning? Cross-validated scores of one setting for all data sets, beside the best of a grid.

The figure is the share of the attainable score that a setting loses: (best - own) / (best - chance), where best is the
best setting of the grid on that data set, and chance an R2 of 0 or an AUC of 0.5. Kernels are the default ones. Of the
experiments, training rows of the first run are used, and no test rows. Needs the data sets.

    python benchmarks/defaults.py
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.datasets import load_diabetes, load_digits

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.datasets import make_related_tasks
from kernelkin.experiments import find_protocol
from kernelkin.model_selection import MultiTaskCV

GRID = {
    "C": [0.1, 0.3, 1.0, 3.0, 10.0, 100.0],
    "evenness": [0.0, 0.5, 0.9],
    "min_rank": [1.0, 2.0],
    "couplings": [None, "common"],
}


def training_rows(name, setting, tasks=None):
    """Training rows of an experiment's first run, and their tasks; only some of the tasks where a number is given."""
    protocol = find_protocol(name)
    split = protocol.split(next(s for s in protocol.settings if s.name == setting), 0)
    if split.tasks is None:
        return split.X, split.y, None
    kept = np.isin(split.tasks, list(split.task_names)[:tasks])
    return split.X[kept], split.y[kept], split.tasks[kept]


def data_sets():
    """Name, is it a classification, and X, y, tasks."""
    yield "landmine, 50 rows", True, training_rows("landmine", "50 rows, usual")
    yield "sarcos, 50 rows", False, training_rows("sarcos", "50 rows")
    yield "sarcos, 150 rows", False, training_rows("sarcos", "150 rows")
    yield "school, 25 schools", False, training_rows("school", "60/40", tasks=25)
    made = make_related_tasks(10, 2, 5, n_samples=30, random_state=0)
    yield "related tasks, regression", False, (made.X, made.y, made.tasks)
    made = make_related_tasks(10, 2, 5, n_samples=40, random_state=0, regression=False)
    yield "related tasks, classes", True, (made.X, made.y, made.tasks)
    digits = load_digits()
    rows = np.random.default_rng(0).permutation(len(digits.target))[:200]
    yield "digits, one against the rest", True, (digits.data[rows], digits.target[rows, None] == np.arange(10), None)
    X, y = load_diabetes(return_X_y=True)
    age = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.2, 0.4, 0.6, 0.8]))
    yield "diabetes, by age", False, (X, y, age)


def scores(classification, X, y, tasks):
    """The cross-validated score of each candidate."""
    model = MKMTRLClassifier(class_weight="balanced") if classification else MKMTRLRegressor()
    scoring = "roc_auc" if classification else "r2"
    search = MultiTaskCV(model, GRID, cv=5, scoring=scoring, search_tol=1e-2, random_state=0)
    given = {} if tasks is None else {"tasks": tasks}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y, **given)
    return search.cv_results_["params"], search.cv_results_["mean_test_score"]


def main():
    lost = {}
    for name, classification, data in data_sets():
        params, reached = scores(classification, *data)
        lost[name] = (reached.max() - reached) / (reached.max() - 0.5 * classification)
        best = params[int(np.argmax(reached))]
        print(f"{name}: best {reached.max():.3f} with {best}", flush=True)
    table = np.array(list(lost.values()))
    order = np.argsort(table.mean(axis=0))
    print("\n| setting | mean loss | worst |", " | ".join(lost), "|\n|---|---|---|" + "---|" * len(lost))
    for i in order:
        setting = ", ".join(f"{name}={value}" for name, value in params[i].items())
        print(f"| {setting} | {table[:, i].mean():.3f} | {table[:, i].max():.3f} |", end=" ")
        print(" | ".join(f"{loss:.3f}" for loss in table[:, i]), "|")


if __name__ == "__main__":
    main()
