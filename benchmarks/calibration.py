"""Log loss and calibration error of probabilities, in random splits.

python -m benchmarks calibration --jobs 16        all sets and contenders, 20 splits, results in a file
python -m benchmarks calibration --report         write the table of the page from the file
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from .uncertainty_run import Record, markdown, run
from .uncertainty_sets import CLASSIFICATION, Split

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "uncertainty.md"
N_BINS = 10
# Probabilities (q_t, m) of the test rows of each task, columns in the order of its classes.
Probabilities = list[np.ndarray]


def main(arguments: Sequence[str]) -> None:
    run("calibration", __doc__ or "", list(CLASSIFICATION), list(CONTENDERS), measure, table, PAGE, arguments)


def measure(data_set: str, split: int, contender: str) -> Record:
    """Fit a contender, and judge its probabilities on the test rows."""
    data = CLASSIFICATION[data_set](split)
    return judge(data, CONTENDERS[contender](data))


def judge(data: Split, found: Probabilities) -> Record:
    """Return mean log loss and Brier score over rows, and errors of calibration.

    `calibration_error` is the mean distance of frequencies from probabilities in ten bins of the rows of all tasks, of
    equal numbers of rows; `task_error` the mean over tasks (and classes) of the distance of the frequency of a class
    from its mean probability.
    """
    losses, squares, pairs, task_errors = [], [], [], []
    for t, p in enumerate(found):
        classes = np.unique(data.train(t)[1])
        codes = np.searchsorted(classes, data.test(data.y_test, t))
        hit = codes[:, np.newaxis] == np.arange(len(classes))
        losses.append(-np.log(np.clip(p[hit], 1e-15, 1.0)))
        squares.append(((p - hit) ** 2).sum(axis=1))
        used = slice(1, None) if len(classes) == 2 else slice(None)
        pairs.append((p[:, used].ravel(), hit[:, used].ravel()))
        task_errors.append(np.abs(p.mean(axis=0) - hit.mean(axis=0)).mean())
    predicted, happened = (np.concatenate(part) for part in zip(*pairs, strict=True))
    bins = np.array_split(np.argsort(predicted, kind="stable"), N_BINS)
    errors = [abs(predicted[b].mean() - happened[b].mean()) for b in bins]
    return {
        "log_loss": float(np.concatenate(losses).mean()),
        "brier": float(np.concatenate(squares).mean()),
        "calibration_error": float(np.average(errors, weights=[len(b) for b in bins])),
        "task_error": float(np.mean(task_errors)),
    }


def _fitted(data: Split):
    """MK-MTRL, its C and whether tasks share a function chosen by the log loss out of fold."""
    from kernelkin import MKMTRLClassifier
    from kernelkin.paper.model_selection import MultiTaskCV

    grid = {"C": [0.3, 1.0, 3.0], "couplings": [None, "common"] if data.tasks is not None else [None]}
    search = MultiTaskCV(MKMTRLClassifier(), grid, scoring="neg_log_loss", random_state=0)
    return search.fit(data.X, data.y, tasks=data.tasks).best_estimator_


def _kernelkin(data: Split) -> Probabilities:
    p = _fitted(data).predict_proba(data.X_test, data.tasks_test)
    # Wide data have the probabilities of the second class alone.
    p = np.stack([1.0 - p, p], axis=-1) if data.is_wide else p
    return [data.test(p, t) for t in range(len(data.labels()))]


def _single_tasks(data: Split) -> Probabilities:
    """A calibrated support vector machine for each task."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC

    found = []
    for t in range(len(data.labels())):
        X, y = data.train(t)
        folds = int(min(5, np.unique(y, return_counts=True)[1].min()))
        X_test = data.X_test if data.tasks_test is None else data.test(data.X_test, t)
        if folds < 2:
            share = (y == np.unique(y)[1]).mean()
            found.append(np.tile([1 - share, share], (len(X_test), 1)))
            continue
        found.append(CalibratedClassifierCV(SVC(), cv=folds, ensemble=False).fit(X, y).predict_proba(X_test))
    return found


CONTENDERS: dict[str, Callable[[Split], Probabilities]] = {
    "predict_proba": _kernelkin,
    "CalibratedClassifierCV(SVC) a task": _single_tasks,
}


def table(records: list[Record]) -> str:
    """Return means over the splits on which all contenders were measured; the file has a former version too."""
    measures = ("log_loss", "calibration_error", "task_error")
    contenders = [name for name in CONTENDERS if any(r["model"] == name for r in records)]
    rows = []
    for each in CLASSIFICATION:
        splits = [{r["split"] for r in records if (r["set"], r["model"]) == (each, c)} for c in contenders]
        common = set.intersection(*splits)
        for contender in contenders:
            found = [r for r in records if (r["set"], r["model"]) == (each, contender) and r["split"] in common]
            if found:
                means = [f"{np.mean([r[m] for r in found]):.4f}" for m in measures]
                rows.append([each, contender, *means, str(len(found))])
    return markdown(["data", "probabilities", "log loss", "calibration error", "error of tasks", "splits"], rows)
