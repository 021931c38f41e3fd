"""Small grouped data that the tests of this folder share."""

from __future__ import annotations

import numpy as np


def folds(n, count=3):
    """Pairs of training and test rows, in turn."""
    of_row = np.arange(n) % count
    return [(np.flatnonzero(of_row != k), np.flatnonzero(of_row == k)) for k in range(count)]


def keep_copies(labelled, keys, folds, weight):
    """Instead of `merge_copies`: all rows stay as they are."""
    every = np.arange(len(weight))
    return every, weight, every


def grouped(seed=0, T=6, n=4, level=2.0, slope=1.0, noise=0.3, d=2):
    """Rows (T n, d) with levels of groups and a common slope; targets, tasks, and the levels (T,)."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(T), n)
    X, levels = rng.normal(size=(T * n, d)), level * rng.normal(size=T)
    y = levels[codes] + slope * X[:, 0] + noise * rng.normal(size=T * n)
    return X, y, np.array(list("abcdefghijklmnopqrstuvwxyz"))[codes], levels


def classes(seed=0, T=5, n=12):
    """Rows with classes "no" and "yes", whose log odds have levels of groups and a common slope."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 2))
    f = 2.0 * rng.normal(size=T)[codes] + 2.0 * X[:, 0]
    y = np.where(rng.random(T * n) < 1 / (1 + np.exp(-f)), "yes", "no")
    return X, y, np.array(list("abcdefgh"))[codes]
