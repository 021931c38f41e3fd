"""
Finding groups of tasks
=======================

Twenty-four tasks of 25 rows come in three groups. Tasks of a group need the same kernels, and nobody says which tasks
belong together. ``min_rank=3`` sets a lower bound of three on the effective rank of the relationship; it finds
who goes where.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from kernelkin.datasets import make_related_tasks
from kernelkin.model_selection import MKMTRLClassifierCV
from kernelkin.plots import TaskRelationshipDisplay


def make(seed):
    return make_related_tasks(
        24, 3, 9, n_samples=25, test_size=200, n_features_per_kernel=1, regression=False, noise=0.05, random_state=seed
    )


data = make(0)
print(data.data.shape[0], "rows; the groups, which the model does not see:", data.groups)

# %%
# The same model with one direction, three, and as many as there are tasks (which then have nothing to do with each
# other), on two draws of the data. The strength ``mu`` is chosen by cross-validation.

models = {}
for rank in (1, 3, 24):
    scores = []
    for seed in (0, 1):
        drawn = make(seed)
        search = MKMTRLClassifierCV(
            drawn.kernels, grid={"mu": [0.3, 1, 3]}, shrinkage=0.05, min_rank=rank, cv=3, random_state=0
        ).fit(drawn.data, drawn.target, tasks=drawn.tasks)
        scores.append(search.score(drawn.data_test, drawn.target_test, tasks=drawn.tasks_test))
        models.setdefault(rank, search.best_estimator_)
    rank_found = models[rank].effective_rank_
    print(f"min_rank {rank:2d}: test accuracy {np.mean(scores):.3f}, effective rank of the weights {rank_found:.2f}")

# %%
# The relationship with one direction and with three. With one, every task looks like every other.

figure, axes = plt.subplots(1, 2, figsize=(13, 6.5), layout="constrained")
for ax, rank in zip(axes, (1, 3), strict=True):
    TaskRelationshipDisplay.from_estimator(models[rank], ax=ax)
    ax.set_title(f"min_rank={rank}", y=1.16)
plt.show()

# %%
# As a graph: the more alike, the closer.

TaskRelationshipDisplay.from_estimator(models[3], kind="graph")
plt.show()

# %%
# Are they the true groups? Cut the tree into three and compare.

pairs = np.triu_indices(24, k=1)
distance = np.maximum(1 - models[3].task_correlation_[pairs], 0)
found = fcluster(linkage(distance, "average"), 3, "maxclust")
agree = (found[pairs[0]] == found[pairs[1]]) == (data.groups[pairs[0]] == data.groups[pairs[1]])
print("found:", found)
print(f"pairs of tasks put together or apart as they should be: {agree.mean():.0%}")
