"""How fast the machine is, and how far from that an evaluation is: all machines solved at one set of kernel weights.

What must be done, at the least: read the Gram stack twice (to combine it, and to multiply it by the dual variables),
for which the rate is that of a triad; and these products, with ridge also a factorisation for each task and K solves
for the curvature, for which the rate is that of a large product.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from .harness import pinned, threads


@dataclass(frozen=True)
class Rates:
    """Bytes a second of a triad, and floating-point operations a second of a matrix product."""

    bandwidth: float
    products: float


@cache
def rates(count: int) -> Rates:
    """Measured on so many threads."""
    with pinned(count):
        return Rates(_triad(), _product())


def _triad(n: int = 12_000_000, repetitions: int = 7) -> float:
    """a = b + 3 c on arrays far larger than the caches: two reads and a write for each of n values."""
    from numba import njit

    @njit(nogil=True)
    def triad(a, b, c):
        for i in range(len(a)):
            a[i] = b[i] + 3.0 * c[i]

    parts = [[np.ones(n // threads()) for _ in range(3)] for _ in range(threads())]
    with ThreadPoolExecutor(threads()) as pool:

        def all_parts() -> None:
            list(pool.map(lambda part: triad(*part), parts))

        all_parts()
        return 3 * 8 * n / min(_seconds(all_parts) for _ in range(repetitions))


def _product(n: int = 1500, repetitions: int = 5) -> float:
    A = np.random.default_rng(0).normal(size=(n, n))
    return 2 * n**3 / min(_seconds(lambda: A @ A) for _ in range(repetitions))


def _seconds(run: Callable[[], Any]) -> float:
    clock = time.process_time if threads() == 1 else time.perf_counter
    began = clock()
    run()
    return clock() - began


def against_limit(
    model: Any, fit: Callable[[Any], Any], sizes: Sequence[int], n_kernels: int, n_tasks: int = 1, *, ridge: bool
) -> dict[str, float]:
    """Fit once more and time its evaluations, the solver's own work between them included.

    `sizes` are the rows of each Gram stack, `n_tasks` the tasks that share one; `ridge` machines factorise a Gram each.
    """
    clock, ticks = (time.process_time if threads() == 1 else time.perf_counter), []
    model.set_params(callback=lambda iterate: ticks.append(clock()))
    fit(model)
    model.set_params(callback=None)
    squares = sum(n**2 for n in sizes)
    factorisations = n_tasks * sum(n**3 / 3 + n_kernels * n**2 for n in sizes) if ridge else 0.0
    memory = 2 * 8 * n_kernels * squares / rates(threads()).bandwidth
    work = (4 * n_kernels * n_tasks * squares + factorisations) / rates(threads()).products
    took = (ticks[-1] - ticks[0]) / max(len(ticks) - 1, 1)
    return {
        "evaluations": len(ticks),
        "ms each": 1e3 * took,
        "ms to read the Grams": 1e3 * memory,
        "ms of products and factorisations": 1e3 * work,
        "times both": took / (memory + work),
    }
