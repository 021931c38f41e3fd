"""Synthetic shops with few days each; sales depend on some of the columns, in part the same way in all shops."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

FEATURES = ("day", "temperature", "price", "rain", "humidity", "wind", "pressure")
DESCR = (
    "Daily sales of shops. Sales depend on the day of the year, the temperature and the price; rain, humidity, wind "
    "and pressure are irrelevant. A part of the function is common to all shops, the rest is each shop's own, and "
    "shops differ in size."
)


def make_shops(
    n_shops: int = 12,
    n_days: int = 15,
    *,
    likeness: float = 0.7,
    noise: float = 0.3,
    test_size: int = 0,
    random_state: int | np.random.RandomState | None = None,
    return_X_y: bool = False,
) -> Any:
    """Draw shops with few days each and partly similar sales.

    Parameters
    ----------
    n_shops : int, default=12
        Number of shops, the tasks.
    n_days : int, default=15
        Training rows of each shop.
    likeness : float in [0, 1], default=0.7
        Share of the variance of a shop's function that is common to all shops. With 0 the shops are unrelated, with 1
        they differ only in size.
    noise : float, default=0.3
        Standard deviation of the noise, for functions of standard deviation one.
    test_size : int, default=0
        Held-out rows of each shop.
    random_state : int, RandomState or None
        Seed.
    return_X_y : bool, default=False
        Return ``(data, target, tasks)`` of the training rows instead of a Bunch.

    Returns
    -------
    Bunch or tuple
        ``data`` (n_shops * n_days, 7), ``target`` (sales) and ``tasks`` (labels "shop01" and on), and ``data_test``,
        ``target_test``, ``tasks_test`` for the held-out rows; ``functions``, which maps rows (q, 7) to expected
        sales (q, n_shops); ``task_names``, ``feature_names``, ``DESCR``.

    Examples
    --------
    >>> from kernelkin.datasets import make_shops
    >>> data = make_shops(n_shops=3, n_days=10, random_state=0)
    >>> data.data.shape, data.tasks[::10].tolist()
    ((30, 7), ['shop01', 'shop02', 'shop03'])
    >>> data.feature_names
    ['day', 'temperature', 'price', 'rain', 'humidity', 'wind', 'pressure']
    """
    if min(n_shops, n_days) < 1 or test_size < 0:
        raise ValueError("n_shops and n_days must be positive, and test_size not negative")
    if not 0 <= likeness <= 1 or not noise >= 0:
        raise ValueError(f"likeness must be between 0 and 1 and noise not negative, got {likeness!r} and {noise!r}")
    rng = check_random_state(random_state)
    functions = _Shops(n_shops, likeness, rng)
    names = np.array([f"shop{s + 1:0{max(2, len(str(n_shops)))}d}" for s in range(n_shops)])
    train, test = (_draw(functions, names, n, noise, rng) for n in (n_days, test_size))
    if return_X_y:
        return train
    parts = dict(zip(("data", "target", "tasks", "data_test", "target_test", "tasks_test"), train + test, strict=True))
    return Bunch(**parts, feature_names=list(FEATURES), task_names=names, functions=functions, DESCR=DESCR)


class _Shops:
    """Expected sales of the shops: a level, plus a common part and an own part mixed by likeness."""

    def __init__(self, n_shops: int, likeness: float, rng: np.random.RandomState) -> None:
        self.size = np.exp(0.5 * rng.standard_normal(n_shops))
        self.shares = np.sqrt([likeness, 1.0 - likeness])
        self.peaks, self.strengths = rng.uniform(0, 365, n_shops), rng.standard_normal((3, n_shops))
        rows = _draw_rows(2000, rng)
        parts = self._parts(rows)
        self.means, self.spreads = [p.mean(axis=0) for p in parts], [p.std(axis=0) for p in parts]

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the expected sales (q, n_shops) for X (q, 7)."""
        return self.sales(self.standard(X))

    def standard(self, X: np.ndarray) -> np.ndarray:
        """Return the functions (q, n_shops), scaled to a standard deviation of about one."""
        pairs = zip(self._parts(np.asarray(X, dtype=float)), self.means, self.spreads, self.shares, strict=True)
        return sum(share * (part - mean) / spread for part, mean, spread, share in pairs)

    def sales(self, values: np.ndarray) -> np.ndarray:
        """Convert values in standard units to sales, by the size of each shop (last axis)."""
        return self.size * (100.0 + 20.0 * values)

    def _parts(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the unscaled common part (q, 1) and own parts (q, n_shops)."""
        day, temperature, price = X[:, :3].T[:, :, np.newaxis]
        year = 2 * np.pi * day / 365
        common = np.sin(year) + 0.7 * np.sin(2 * year) + 1.5 * np.exp(-(((temperature - 24) / 6) ** 2)) - 0.6 * price
        season, warmth, discount = self.strengths
        own = season * np.cos(year - 2 * np.pi * self.peaks / 365) + warmth * np.sin(temperature / 5) - discount * price
        return common, own


def _draw_rows(n: int, rng: np.random.RandomState) -> np.ndarray:
    """Draw days (n, 7); temperatures follow the season, the other columns are independent of it."""
    day = rng.uniform(1, 366, n)
    temperature = 13 - 8 * np.cos(2 * np.pi * day / 365) + 5 * rng.standard_normal(n)
    price, rain = rng.uniform(2, 4, n), rng.exponential(2.0, n)
    humidity, wind, pressure = rng.uniform(30, 90, n), rng.gamma(2.0, 5.0, n), 1013 + 8 * rng.standard_normal(n)
    return np.column_stack([day, temperature, price, rain, humidity, wind, pressure])


def _draw(functions: _Shops, names: np.ndarray, n: int, noise: float, rng: np.random.RandomState) -> tuple:
    """Draw n rows for each shop, sorted by shop."""
    X = _draw_rows(n * len(names), rng)
    shop = np.repeat(np.arange(len(names)), n)
    values = functions.standard(X) + noise * rng.standard_normal((len(X), 1))
    return X, functions.sales(values)[np.arange(len(X)), shop], names[shop]
