"""
Choosing parameters
===================

The strength of the penalty, the rank of the relationship and couplings are chosen by cross-validation inside the tasks.
``MultiTaskCV`` evaluates the kernels once for all folds and candidates, and solves for the values of ``mu`` in order,
each starting from the last solution.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from kernelkin import MKMTRLRegressor, MKMTRLRegressorCV
from kernelkin.data import TaskKFold
from kernelkin.datasets import make_related_tasks

data = make_related_tasks(8, 2, 6, n_samples=30, test_size=200, noise=0.3, n_features_per_kernel=1, random_state=1)
grid = {"mu": [0.001, 0.01, 0.1, 1, 10], "min_rank": [1, 2, 8], "couplings": [None, "common"]}
search = MKMTRLRegressorCV(data.kernels, grid=grid, cv=3, random_state=0).fit(data.data, data.target, tasks=data.tasks)
print("best:", search.best_params_)
print(f"cross-validated R² {search.best_score_:.3f}, on test rows ", end="")
print(f"{search.score(data.data_test, data.target_test, tasks=data.tasks_test):.3f}")
print(f"{len(search.cv_results_['params'])} candidates on 3 folds")

# %%
# ``cv_results_`` has a row for each candidate; the error bars are standard errors over folds. These tasks share the
# kernels they need and not their functions, so that coupling the functions does not pay: cross-validation says no.

results = search.cv_results_
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained", sharey=True)
colors, markers = ("#E69F00", "#0072B2", "#000000"), "Dos"
for ax, coupling in zip(axes, (None, "common"), strict=True):
    for rank, color, marker in zip((1, 2, 8), colors, markers, strict=True):
        rows = [i for i, p in enumerate(results["params"]) if p["min_rank"] == rank and p["couplings"] == coupling]
        mu = [results["params"][i]["mu"] for i in rows]
        score, error = results["mean_test_score"][rows], results["standard_error"][rows]
        ax.errorbar(mu, score, error, color=color, marker=marker, capsize=2, label=f"min_rank={rank}")
    ax.set(xscale="log", xlabel="mu", title=f"couplings={coupling!r}")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("cross-validated R²")
axes[0].legend(frameon=False)
plt.show()

# %%
# A grid of ``C`` beside ``mu`` would repeat itself: the model depends on ``mu / C**3`` alone (:doc:`/guide/parameters`
# derives it). Two settings with the same ratio predict the same.

one = MKMTRLRegressor(data.kernels, C=1, mu=0.01, tol=1e-8).fit(data.data, data.target, tasks=data.tasks)
two = MKMTRLRegressor(data.kernels, C=10, mu=10, tol=1e-8).fit(data.data, data.target, tasks=data.tasks)
difference = one.predict(data.data_test, tasks=data.tasks_test) - two.predict(data.data_test, tasks=data.tasks_test)
print(f"largest difference of predictions: {np.abs(difference).max():.1e}")
print(f"weights: {one.kernel_weights_[0].round(4)} and ten times {two.kernel_weights_[0].round(5)}")

# %%
# The tools of scikit-learn get folds inside tasks from :class:`~kernelkin.data.TaskKFold`: every task has rows in all
# training parts, and in all test parts if it has enough.

for train, test in TaskKFold(3, random_state=0).split(data.data, groups=data.tasks):
    rows = {task: int(np.sum(data.tasks[test] == task)) for task in data.task_names[:3].tolist()}
    print(f"{len(train)} rows train and {len(test)} test, of these {rows}")
