"""
How good is this optimum?
=========================

Every fit has a lower bound on what *any* kernel weights could reach. Here the bound is computed by hand from the fitted
model, and two solvers are compared by how fast they close the gap.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

from kernelkin import MKMTRLRegressor
from kernelkin.datasets import make_related_tasks
from kernelkin.kernels import evaluate
from kernelkin.plots import ConvergenceDisplay

data = make_related_tasks(10, 2, 6, n_samples=40, noise=0.2, n_features_per_kernel=1, random_state=0)
C, mu, T = 10.0, 1.0, 10
model = MKMTRLRegressor(data.kernels, C=C, mu=mu, shrinkage=0.1, min_rank=2, tol=1e-6)
model.fit(data.data, data.target, tasks=data.tasks)
print(f"objective {model.objective_:.6f}, at most {model.duality_gap_:.1e} above the optimum")
ConvergenceDisplay.from_estimator(model)
plt.show()

# %%
# The bound by hand
# -----------------
# From the dual variables ``a`` of the machines and the kernels alone, following :doc:`/mathematics`: the terms without
# a Gram matrix, and ``Q`` with half the quadratic form of each kernel in each task.

Q, lin = np.zeros((len(data.kernels), T)), 0.0
for t, task in enumerate(model.tasks_):
    rows, a = data.tasks == task, model.dual_coef_[t][:, 0]
    grams = evaluate(model.kernels_, data.data[rows])
    grams /= grams.diagonal(axis1=1, axis2=2).mean(axis=1)[:, np.newaxis, np.newaxis]  # mean diagonal one
    Q[:, t] = 0.5 * np.einsum("i,kij,j->k", a, grams, a)
    lin += data.target[rows] @ a - a @ a / (2 * C)

# %%
# The objective is the machines plus the penalty; the bound takes the worst relationship for the same ``a``. The floor
# goes to every direction, and what is left to the largest, up to the cap. Any matrix that is nowhere below ``Q`` gives
# a bound: take the better of two.

B, Omega = model.kernel_weights_.T, model.task_relationship_
slope = mu * B @ np.linalg.inv(Omega)
objective = lin - (B * Q).sum() + 0.5 * np.trace(B @ slope.T)
floor, cap = 0.1 / T, 1 / 2
theta, left = np.full(T, floor), 1 - T * floor
for i in range(T):
    step = min(left, cap - floor)
    theta[i] += step
    left -= step


def lower_bound(M):
    """The bound that any M >= Q gives, (K, T)."""
    m = np.zeros(T)
    m[: len(M)] = np.linalg.svd(M, compute_uv=False)
    return lin - (theta * m**2).sum() / (2 * mu)


bound = max(lower_bound(Q), lower_bound(np.maximum(Q, slope)))
print(f"by hand: objective {objective:.6f}, bound {bound:.6f}, gap {objective - bound:.1e}")

# %%
# Two solvers
# -----------
# The joint solver (:class:`~kernelkin.paper.solvers.Joint`) and the paper's alternation
# (:class:`~kernelkin.paper.solvers.Alternating`) on the same problem. An iteration of the alternation solves all
# machines several times, one of the joint solver once. ``callback=`` is given each
# :class:`~kernelkin.paper.solvers.Iterate`.

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    other = MKMTRLRegressor(
        data.kernels, C=C, mu=mu, shrinkage=0.1, min_rank=2, tol=1e-6, solver="alternating", max_iter=100
    ).fit(data.data, data.target, tasks=data.tasks)

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for fitted, name, marker, color in ((model, "joint", "o", "#0072B2"), (other, "alternating", "D", "#E69F00")):
    gap = np.maximum(fitted.history_["relative_gap"], 1e-12)
    ax.semilogy(np.arange(1, len(gap) + 1), gap, marker=marker, markersize=3, color=color, label=name)
ax.set(xlabel="iteration", ylabel="relative duality gap")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
