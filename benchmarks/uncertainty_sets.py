"""Data sets on which probabilities and intervals are judged, in random splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Split:
    """Training and test rows. Without tasks, y (n, T) is wide; columns have mean 0 and deviation 1 in training."""

    X: np.ndarray
    y: np.ndarray
    tasks: np.ndarray | None
    X_test: np.ndarray
    y_test: np.ndarray
    tasks_test: np.ndarray | None

    @property
    def is_wide(self) -> bool:
        return self.tasks is None and self.y.ndim == 2

    def labels(self) -> list:
        """The names of the tasks, in order."""
        if self.tasks is None:
            return list(range(self.y.shape[1] if self.y.ndim == 2 else 1))
        return np.unique(self.tasks).tolist()

    def train(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and targets of one task."""
        if self.tasks is None:
            return self.X, self.y[:, t] if self.y.ndim == 2 else self.y
        rows = self.tasks == self.labels()[t]
        return self.X[rows], self.y[rows]

    def test(self, values: np.ndarray, t: int) -> np.ndarray:
        """Values at the test rows of one task, from those (q, ...), or wide (q, T, ...)."""
        if self.tasks_test is None:
            return values[:, t] if self.y.ndim == 2 else values
        return values[self.tasks_test == self.labels()[t]]


def _split(X, y, tasks, train: np.ndarray, test: np.ndarray) -> Split:
    center, scale = X[train].mean(axis=0), X[train].std(axis=0)
    Z = (X - center) / np.where(scale > 1e-12, scale, 1.0)
    parts = (None, None) if tasks is None else (tasks[train], tasks[test])
    return Split(Z[train], y[train], parts[0], Z[test], y[test], parts[1])


def _within(tasks: np.ndarray, sizes: Callable[[int], int], rng, y: np.ndarray | None = None) -> np.ndarray:
    """Training rows: some of each task, both classes among them."""
    chosen = []
    for label in np.unique(tasks):
        rows = rng.permutation(np.flatnonzero(tasks == label))
        if y is not None:
            first = [rows[y[rows] == c][:1] for c in np.unique(y[rows])]
            rows = np.concatenate([*first, np.setdiff1d(rows, np.concatenate(first), assume_unique=True)])
            rest = rows[len(first) :]
            rows[len(first) :] = rng.permutation(rest)
        chosen.append(rows[: sizes(len(rows))])
    return np.concatenate(chosen)


def _landmine(split: int, rows: int) -> Split:
    from experiments.data_sets import load_landmine

    data = load_landmine()
    X, y, tasks = data.data, data.target, data.tasks
    train = _within(tasks, lambda n: rows, np.random.default_rng(split), y)
    return _split(X, y, tasks, train, np.setdiff1d(np.arange(len(X)), train))


def _digits(split: int, rows: int, *, wide: bool) -> Split:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return _classes(X, y, split, rows, wide)


def _mfeat(split: int, rows: int, *, wide: bool) -> Split:
    from experiments.data_sets import load_mfeat

    data = load_mfeat()
    return _classes(data.data[:, data.views["kar"]], data.target, split, rows, wide)


def _classes(X: np.ndarray, y: np.ndarray, split: int, rows: int, wide: bool) -> Split:
    order = np.random.default_rng(split).permutation(len(X))
    target = (y[:, np.newaxis] == np.arange(10)).astype(np.int64) if wide else y
    return _split(X, target, None, order[:rows], order[rows:])


def _related(split: int, *, regression: bool) -> Split:
    from kernelkin.datasets import make_related_tasks

    noise = 0.3 if regression else 0.1
    d = make_related_tasks(10, n_samples=40, noise=noise, regression=regression, test_size=200, random_state=split)
    return Split(d.data, d.target, d.tasks, d.data_test, d.target_test, d.tasks_test)


def _shops(split: int, *, classes: bool) -> Split:
    """Sales of 20 shops on 15 days each, and on 100 days to test."""
    rng, n = np.random.RandomState(split), 20 * 15
    size = np.exp(0.5 * rng.standard_normal(20))
    peaks, (season, warmth, discount) = rng.uniform(0, 365, 20), rng.standard_normal((3, 20))

    def parts(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The common part (q, 1) and the own parts (q, 20) of the functions at X (q, 7)."""
        day, temperature, price = X[:, :3].T[:, :, np.newaxis]
        year = 2 * np.pi * day / 365
        common = np.sin(year) + 0.7 * np.sin(2 * year) + 1.5 * np.exp(-(((temperature - 24) / 6) ** 2)) - 0.6 * price
        own = season * np.cos(year - 2 * np.pi * peaks / 365) + warmth * np.sin(temperature / 5) - discount * price
        return common, own

    sample = parts(_days(2000, rng))
    means, spreads = [part.mean(axis=0) for part in sample], [part.std(axis=0) for part in sample]
    shares = np.sqrt([0.7, 1 - 0.7])

    def draw(days: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X, shop = _days(20 * days, rng), np.repeat(np.arange(20), days)
        f = sum(s * (part - m) / d for part, m, d, s in zip(parts(X), means, spreads, shares, strict=True))
        values = f + 0.3 * rng.standard_normal((len(X), 1))
        return X, (size * (100.0 + 20.0 * values))[np.arange(len(X)), shop], shop

    X, y, tasks = (np.concatenate(pair) for pair in zip(draw(15), draw(100), strict=True))
    if classes:
        y = y > np.median(y[:n])
    mixed = [t for t in np.unique(tasks) if len(np.unique(y[:n][tasks[:n] == t])) > 1]
    kept = np.flatnonzero(np.isin(tasks, mixed))
    return _split(X, y, tasks, kept[kept < n], kept[kept >= n])


def _days(n: int, rng: np.random.RandomState) -> np.ndarray:
    """Day of the year, temperature, price, and four columns that do not matter: (n, 7)."""
    day = rng.uniform(1, 366, n)
    temperature = 13 - 8 * np.cos(2 * np.pi * day / 365) + 5 * rng.standard_normal(n)
    price, rain = rng.uniform(2, 4, n), rng.exponential(2.0, n)
    humidity, wind, pressure = rng.uniform(30, 90, n), rng.gamma(2.0, 5.0, n), 1013 + 8 * rng.standard_normal(n)
    return np.column_stack([day, temperature, price, rain, humidity, wind, pressure])


def _sarcos(split: int, rows: int) -> Split:
    from experiments.data_sets import load_sarcos

    data = load_sarcos()
    X, Y = data.data, data.target
    order = np.random.default_rng(split).permutation(len(X))
    return _split(X, Y, None, order[:rows], order[rows : rows + 1000])


def _school(split: int) -> Split:
    from experiments.data_sets import load_school

    data = load_school()
    train = _within(data.tasks, lambda n: int(0.6 * n), np.random.default_rng(split))
    return _split(data.data, data.target, data.tasks, train, np.setdiff1d(np.arange(len(data.data)), train))


def _stock(split: int) -> Split:
    from experiments.data_sets import load_stock

    data = load_stock()
    X, Y = np.vstack([data.data, data.data_test]), np.vstack([data.target, data.target_test])
    order = np.random.default_rng(split).permutation(len(X))
    return _split(X, Y, None, order[:25], order[25:])


CLASSIFICATION: dict[str, Callable[[int], Split]] = {
    "landmine, 30 rows a task": lambda split: _landmine(split, 30),
    "landmine, 80 rows a task": lambda split: _landmine(split, 80),
    "digits, ten tasks": lambda split: _digits(split, 200, wide=True),
    "digits, ten classes": lambda split: _digits(split, 200, wide=False),
    "mfeat, ten tasks": lambda split: _mfeat(split, 200, wide=True),
    "mfeat, ten classes": lambda split: _mfeat(split, 200, wide=False),
    "related tasks": lambda split: _related(split, regression=False),
    "shops": lambda split: _shops(split, classes=True),
}
REGRESSION: dict[str, Callable[[int], Split]] = {
    "SARCOS, 50 rows": lambda split: _sarcos(split, 50),
    "SARCOS, 200 rows": lambda split: _sarcos(split, 200),
    "school": _school,
    "stock": _stock,
    "related tasks": lambda split: _related(split, regression=True),
    "shops": lambda split: _shops(split, classes=False),
}
