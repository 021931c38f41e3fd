"""
The collapse
============

At the optimum of the original paper's penalty all tasks use *one* mix of kernels, whatever the data: the kernel weights
have rank one. :doc:`/mathematics` has the proof. This page shows it on data, and how ``min_rank`` and ``shrinkage``
prevent it.
"""

# %%
# Two groups of tasks that need disjoint kernels.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from kernelkin import MKMTRLRegressor
from kernelkin.datasets import make_related_tasks
from kernelkin.exceptions import CollapseWarning
from kernelkin.paper.solvers import Alternating

data = make_related_tasks(8, 2, 6, n_samples=25, test_size=200, noise=0.2, n_features_per_kernel=1, random_state=0)
print(data.kernel_weights.round(2))

# %%
# The paper's penalty is ``shrinkage=0`` and ``min_rank=1``. The solver closes the duality gap, so this is the optimum,
# and the library warns about what it looks like.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    paper = MKMTRLRegressor(data.kernels, C=10, mu=1, shrinkage=0, min_rank=1, tol=1e-6)
    paper.fit(data.data, data.target, tasks=data.tasks)
print(*(str(w.message) for w in caught if w.category is CollapseWarning))
print(f"\nrelative duality gap {paper.duality_gap_ / paper.objective_:.1e}")
print("singular values of the kernel weights:", np.linalg.svd(paper.kernel_weights_, compute_uv=False).round(9))

# %%
# Every row below is a task's mix of kernels. They are all the same.

mix = paper.kernel_weights_ / paper.kernel_weights_.sum(axis=1, keepdims=True)
print(mix.round(3))

# %%
# The paper alternates between machines, weights and relationship, for 50 rounds. It slowly approaches the same optimum:
# how far apart the tasks still are depends on when one stops.

ranks = []
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    MKMTRLRegressor(
        data.kernels,
        C=10,
        mu=1,
        shrinkage=0,
        tol=1e-9,
        max_iter=50,
        solver=Alternating(),
        callback=lambda step: ranks.append(np.linalg.svd(step.B, compute_uv=False)),
    ).fit(data.data, data.target, tasks=data.tasks)

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
looks = [("#0072B2", "-"), ("#E69F00", "--"), ("#000000", ":")]
for i, (line, (color, style)) in enumerate(zip(np.array(ranks).T[:3], looks, strict=True)):
    values = np.maximum(line, 1e-12)
    ax.semilogy(np.arange(1, len(line) + 1), values, style, color=color, label=f"singular value {i + 1}")
ax.set(xlabel="iteration of the alternation", ylabel="singular values of the weights")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# With ``min_rank=2`` the groups appear. Shrinkage alone prevents the collapse, too, but shows the groups less
# clearly.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
settings = {"min_rank=1, shrinkage=0": (1, 0), "min_rank=2, shrinkage=0": (2, 0), "min_rank=1, shrinkage=0.3": (1, 0.3)}
for ax, (name, (rank, shrinkage)) in zip(axes, settings.items(), strict=True):
    model = MKMTRLRegressor(data.kernels, C=10, mu=1, shrinkage=shrinkage, min_rank=rank)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        model.fit(data.data, data.target, tasks=data.tasks)
    score = model.score(data.data_test, data.target_test, tasks=data.tasks_test)
    rows = model.kernel_weights_ / np.linalg.norm(model.kernel_weights_, axis=1, keepdims=True)
    image = ax.imshow(rows @ rows.T, vmin=0, vmax=1, cmap="YlGnBu")
    ax.set(title=f"{name}\neffective rank {model.effective_rank_:.2f}, test R² {score:.2f}", xlabel="task")
axes[0].set_ylabel("task")
figure.colorbar(image, ax=axes, label="cosine of kernel weights")
plt.show()
