"""Time of the L-BFGS that minimises the joint solver's models, against SciPy's L-BFGS-B, on models of several sizes.

    python -m benchmarks.inner_minimiser

Both minimise the relationship penalty plus a parabola of each task's kernel weights, from even weights, until the
projected gradient is 3% of that at the start. Times are the processor's, the best of several runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import Bounds, minimize

from kernelkin.paper.penalties import RelationPenalty
from kernelkin.paper.solvers.joint import Function, minimise_bounded

FORCING = 0.03
# Kernels and tasks.
SIZES = ((6, 3), (5, 19), (20, 50), (10, 300), (100, 20))


class Model:
    """The penalty and a parabola for K kernels and T tasks; counts its evaluations."""

    def __init__(self, K: int, T: int) -> None:
        rng = np.random.default_rng(0)
        roots = rng.normal(size=(T, K, K)) / np.sqrt(K)
        self.shape, self.penalty, self.evaluations = (K, T), RelationPenalty(T), 0
        self.H, self.Q = roots @ roots.transpose(0, 2, 1), rng.uniform(size=(K, T))

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        self.evaluations += 1
        B = x.reshape(self.shape)
        R, slope = self.penalty.value_and_gradient(B)
        HB = (self.H @ B.T[:, :, np.newaxis])[:, :, 0].T
        return 0.5 * R + 0.5 * float(np.vdot(B, HB)) - float(np.vdot(B, self.Q)), (slope + HB - self.Q).ravel()


def by_scipy(function: Function, x: np.ndarray) -> np.ndarray:
    goal = FORCING * float(np.abs(np.minimum(function(x)[1], x)).max())
    options = {"ftol": 0.0, "gtol": goal, "maxiter": 10**4, "maxfun": 10**4}
    return minimize(function, x, jac=True, method="L-BFGS-B", bounds=Bounds(0.0, np.inf), options=options).x


def measure(run: Callable[[Model, np.ndarray], Any], model: Model, repetitions: int = 15) -> tuple[float, int]:
    """Least CPU milliseconds, and evaluations."""
    times, start = [], np.ones(model.Q.size)
    for _ in range(repetitions):
        model.evaluations = 0
        began = time.process_time()
        run(model, start)
        times.append(time.process_time() - began)
    return 1e3 * min(times), model.evaluations


if __name__ == "__main__":
    for K, T in SIZES:
        model = Model(K, T)
        ours, evaluations = measure(lambda model, x: minimise_bounded(model, x, FORCING), model)
        theirs, of_theirs = measure(by_scipy, model)
        print(f"K={K} T={T}: {ours:.2f} ms ({evaluations} evaluations); SciPy {theirs:.2f} ms ({of_theirs})")
