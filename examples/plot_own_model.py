"""
A model of your own
===================

A model of this library is a loss, a penalty on the kernel weights, and a solver. Here is one that does not exist yet: a
penalty under which some kernels are more expensive than others, and projected gradient descent as its solver. Both are
a few lines. The duality gap is computed by the problem and not by the solver, so the new model has the same certificate
as every other.
"""

# %%
# A penalty has a value with a gradient, and a *bound*: a number that is never above the minimum over B >= 0 of
# ``mu/2 R(B) - <B, Q>``. Here R is a weighted squared norm, and the minimum is known.

from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np

from kernelkin import gaussian_kernels, linear_kernels
from kernelkin.paper import MultiTaskKernelRegressor
from kernelkin.paper.penalties import Penalty, Relation
from kernelkin.paper.problems import Problem
from kernelkin.paper.solvers import Point, Solver
from kernelkin.plots import ConvergenceDisplay


class PricedKernels(Penalty):
    """R(B) = sum over kernels and components of price_k B_kj^2."""

    name = "priced"

    def __init__(self, prices):
        self.prices = np.asarray(prices, dtype=float)[:, np.newaxis]

    def value_and_gradient(self, B):
        return float((self.prices * B**2).sum()), self.prices * B

    def bound(self, Q, B, mu):
        return -float((Q**2 / self.prices).sum()) / (2 * mu)

    def relation(self, B):
        return Relation.unrelated(B.shape[1])


# %%
# Seven things are known about each day of a shop, with a kernel for each. The last four cost a hundred times as much as
# the first three and the linear kernel.

rng = np.random.default_rng(0)
shop = np.repeat(np.arange(6), 125)
columns = rng.normal(size=(750, 7))
season, price = rng.normal(size=(2, 6))[:, shop]
sales = np.sin(2 * columns[:, 0]) + season * columns[:, 1] ** 2 + price * columns[:, 2] + 0.3 * rng.normal(size=750)
train = np.arange(750) % 5 == 0  # 25 days of each shop
X, y, tasks = columns[train], sales[train], shop[train]
kernels = [gaussian_kernels(1.0, per_feature=True), linear_kernels()]
prices = [1, 1, 1, 100, 100, 100, 100, 1]

for name, penalty in {"equal prices": PricedKernels(np.ones(8)), "four expensive": PricedKernels(prices)}.items():
    model = MultiTaskKernelRegressor(kernels, penalty=penalty, C=10)
    model.fit(X, y, tasks=tasks)
    share = model.kernel_weights_[:, 3:7].sum() / model.kernel_weights_.sum()
    score = model.score(columns[~train], sales[~train], tasks=shop[~train])
    gap = model.duality_gap_ / model.objective_
    print(f"{name:16} R² {score:.2f}, weight on the last four columns {share:.0%}, relative gap {gap:.0e}")

# %%
# A solver is a generator: it yields points and receives their evaluations. The driver evaluates, records, and stops
# when the gap is closed. This one takes gradient steps and stays at B >= 0. A step that does not lower the objective is
# undone, and the next one is half as long.


class ProjectedDescent(Solver):
    """Gradient descent on B >= 0."""

    name: ClassVar[str] = "descent"
    role: ClassVar[str] = "descent"
    problems: ClassVar[tuple[type, ...]] = (Problem,)

    def run(self, problem, start, certificate):
        shape = problem.grams.n_kernels, problem.grams.n_components
        B = np.full(shape, 0.1) if start is None else start
        certificate.accuracy = 1e-6  # of the machines
        best, length = None, 1.0
        while True:
            evaluation = yield Point(B)
            if best is None or evaluation.primal < best.primal:
                best, length = evaluation, 1.5 * length
            else:
                length = 0.5 * length
            gradient = problem.mu * problem.penalty.value_and_gradient(best.B)[1] - best.Q
            B = np.maximum(best.B - length * gradient, 0.0)


# %%
# It reaches the same certified optimum as the library's own solver, in more iterations. For classes,
# :class:`~kernelkin.paper.MultiTaskKernelClassifier` takes the same penalties and solvers.

settings = {"kernels": kernels, "penalty": PricedKernels(prices), "C": 10, "max_iter": 500}
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, (name, solver) in zip(axes, {"joint": "joint", "projected descent": ProjectedDescent()}.items(), strict=True):
    model = MultiTaskKernelRegressor(solver=solver, **settings).fit(X, y, tasks=tasks)
    print(f"{name:18} objective {model.objective_:.6g} after {model.n_iter_} evaluations")
    ConvergenceDisplay.from_estimator(model, ax=ax)
    ax.set_title(name)
plt.show()
