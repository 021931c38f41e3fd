"""Where one class is rare: by which score of held-out rows should cross-validation choose?

Twelve tasks of 60 rows, one in twelve positive, in two groups, made at random. Their functions are a common part, a
part of the group and one of their own, in four mixtures. Candidates are of the kind of the landmine experiment's. Each
rule chooses by five folds of the training rows; the table has the mean AUC of its choices on 400 test rows per task.

    python benchmarks/selection_rule.py [--seeds 7]
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.metrics import roc_auc_score

from kernelkin import MKMTRLClassifier, polynomial_kernels

TASKS, ROWS, TEST_ROWS, FEATURES, SHARE, FOLDS = 12, 60, 400, 9, 0.08, 5
MIXTURES = {"common": (1.0, 0.2, 0.2), "groups": (0.2, 1.0, 0.3), "own": (0.0, 0.1, 1.0), "even": (0.5, 0.5, 0.5)}
CANDIDATES = [
    *({"couplings": "common", "C": C} for C in (0.01, 0.03, 0.1)),
    *({"min_rank": rank, "C": 0.1} for rank in (1.0, 4.0)),
]


def quadratic(rng):
    """A random function of rows (n, FEATURES)."""
    linear, square = rng.normal(size=FEATURES) / 3, rng.normal(size=(FEATURES, FEATURES)) / 9
    return lambda X: X @ linear + np.einsum("ij,jk,ik->i", X, square, X)


def draw(rng, parts, n):
    """20 n rows, the SHARE of them with the largest noisy value positive."""
    X = rng.normal(size=(20 * n, FEATURES))
    value = sum(np.sqrt(size) * part(X) for size, part in parts)
    value = value / value.std() + 1.2 * rng.normal(size=len(X))
    return X, value > np.quantile(value, 1 - SHARE)


def make(seed, mixture):
    """Training and test rows of all tasks: two triples of X, y, tasks."""
    rng = np.random.default_rng([seed, 99])
    common, groups = quadratic(rng), (quadratic(rng), quadratic(rng))
    train, test = [], []
    for t in range(TASKS):
        parts = list(zip(mixture, (common, groups[t % 2], quadratic(rng)), strict=True))
        X, y = draw(rng, parts, ROWS)
        positive = round(SHARE * ROWS)
        rows = np.r_[np.flatnonzero(y)[:positive], np.flatnonzero(~y)[: ROWS - positive]]
        train.append((X[rows], y[rows], np.full(ROWS, t)))
        X, y = draw(rng, parts, TEST_ROWS)
        test.append((X[:TEST_ROWS], y[:TEST_ROWS], np.full(TEST_ROWS, t)))
    return [[np.concatenate(column) for column in zip(*part, strict=True)] for part in (train, test)]


def make_folds(seed, y, tasks):
    rng, folds = np.random.default_rng(seed), np.empty(len(y), dtype=int)
    for t in range(TASKS):
        for label in (False, True):
            rows = rng.permutation(np.flatnonzero((tasks == t) & (y == label)))
            folds[rows] = (np.arange(len(rows)) + rng.integers(FOLDS)) % FOLDS
    return folds


def values(params, train, queries):
    X, y, tasks = train
    model = MKMTRLClassifier(polynomial_kernels(range(1, 6)), loss="squared", class_weight="balanced", **params)
    return model.fit(X, y, tasks=tasks).decision_function(queries[0], tasks=queries[2])


def auc(y, value):
    return roc_auc_score(y, value) if 0 < y.sum() < len(y) else np.nan


def rule_scores(value, y, tasks, folds):
    """What each rule says of a candidate with these held-out values."""
    cells = [[(tasks == t) & (folds == f) for f in range(FOLDS)] for t in range(TASKS)]
    squares = [
        np.mean((value[m] - (2 * c - 1)) ** 2)
        for t in range(TASKS)
        for c in (0, 1)
        if (m := (tasks == t) & (y == c)).any()
    ]
    return {
        "AUC within folds": np.nanmean([[auc(y[m], value[m]) for m in row] for row in cells]),
        "AUC pooled over folds": np.mean([auc(y[tasks == t], value[tasks == t]) for t in range(TASKS)]),
        "AUC of all tasks, within folds": np.mean([auc(y[folds == f], value[folds == f]) for f in range(FOLDS)]),
        "squared loss": -np.mean(squares),
    }


def compare(seed, mixture):
    """Test AUC of what each rule chooses, and of the best candidate."""
    train, test = make(seed, mixture)
    folds = make_folds(seed, *train[1:])
    found, reached = [], []
    for params in CANDIDATES:
        held = np.empty(len(folds))
        for f in range(FOLDS):
            kept, out = ([part[mask] for part in train] for mask in (folds != f, folds == f))
            held[folds == f] = values(params, kept, out)
        found.append(rule_scores(held, *train[1:], folds))
        value = values(params, train, test)
        reached.append(np.mean([auc(test[1][test[2] == t], value[test[2] == t]) for t in range(TASKS)]))
    chosen = {rule: reached[int(np.argmax([scores[rule] for scores in found]))] for rule in found[0]}
    return {**chosen, "the best candidate": max(reached)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=7)
    seeds = range(parser.parse_args().seeds)
    table = {name: [compare(seed, mixture) for seed in seeds] for name, mixture in MIXTURES.items()}
    print("| rule |", " | ".join(table), "|\n|---|" + "---|" * len(table))
    for rule in next(iter(table.values()))[0]:
        print(f"| {rule} |", " | ".join(f"{np.mean([run[rule] for run in runs]):.4f}" for runs in table.values()), "|")


if __name__ == "__main__":
    main()
