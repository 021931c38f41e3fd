"""
Finding groups of tasks
=======================

Twenty-four tasks of 80 rows come in three groups. Tasks of a group need the same kernels, and nobody says which tasks
belong together. ``min_rank=3`` sets a lower bound of three on the effective rank of the relationship, and a test
says which groups can be told apart.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from kernelkin import task_relations
from kernelkin.datasets import make_related_tasks
from kernelkin.model_selection import MKMTRLClassifierCV
from kernelkin.plots import TaskRelationshipDisplay


def make(seed):
    return make_related_tasks(
        24, 3, 9, n_samples=80, test_size=200, n_features_per_kernel=1, regression=False, noise=0.05, random_state=seed
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
# Do the groups stand out from chance? The test compares the tasks' use of kernels with draws in which all tasks use one
# mix, and splits groups as long as they do not pass as one.

relations = task_relations(models[3], data.data, data.target, data.tasks, by="kernels", random_state=0)
print(relations)
print("found:", relations.groups)
print("true: ", data.groups)

# %%
# The likeness of the groups' kernels, and the tree of the tasks.

TaskRelationshipDisplay(relations).plot()
plt.show()

# %%
TaskRelationshipDisplay(relations).plot(kind="dendrogram")
plt.show()

# %%
# Their functions have nothing in common: all that a group shares is which kernels it needs.
#
# What the test returns is a :class:`~kernelkin.TaskRelations`: ``print`` says it in words.

print(task_relations(models[3], data.data, data.target, data.tasks, random_state=0).headline())
