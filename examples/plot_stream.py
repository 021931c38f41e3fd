"""
Learning kernels from a stream
==============================

Rows arrive in pieces, there are many of them, and new tasks turn up on the way. No Gram matrix is ever held: kernel
weights and task relationship are learned from pairs of rows as they come (``partial_fit``), in memory that does not
grow with the number of rows.
"""

# %%
# Forty tasks in two groups. Those of the second group come late.

import matplotlib.pyplot as plt
import numpy as np

from kernelkin import TwoStageMKMTRLClassifier
from kernelkin.datasets import make_related_tasks

data = make_related_tasks(
    40,
    2,
    6,
    n_samples=250,
    test_size=50,
    n_features_per_kernel=1,
    regression=False,
    noise=0.05,
    random_state=0,
)
rng = np.random.default_rng(0)
group = np.repeat(data.groups, 250)
order = np.argsort(rng.uniform(size=len(data.target)) + 0.5 * group, kind="stable")
pieces = np.array_split(order, 20)
print(len(data.target), "rows in", len(pieces), "pieces")

# %%
# Feed one piece after the other, and look at the score on the tasks seen so far. The machines are fitted when a
# prediction is requested, on a reservoir of rows of each task.

model = TwoStageMKMTRLClassifier(data.kernels, update="hinge", min_rank=2, C=10, reservoir=150, random_state=0)
rows, tasks, scores = [], [], []
for i, piece in enumerate(pieces, 1):
    model.partial_fit(data.data[piece], data.target[piece], tasks=data.tasks[piece])
    if i % 4 == 0:
        known = np.isin(data.tasks_test, model.tasks_)
        rows.append(i * len(piece))
        tasks.append(len(model.tasks_))
        scores.append(model.score(data.data_test[known], data.target_test[known], tasks=data.tasks_test[known]))
        print(f"{rows[-1]:6d} rows, {tasks[-1]} tasks, accuracy {scores[-1]:.3f}")

# %%
# The kernels that the tasks have learned, and those they were made with.

labels = np.array([int(task.removeprefix("task")) for task in model.tasks_])
figure, axes = plt.subplots(1, 3, figsize=(11, 4.5), layout="constrained", width_ratios=(1.3, 1, 1))
axes[0].plot(rows, scores, marker="o", color="#0072B2")
axes[0].set(xlabel="rows seen", ylabel="accuracy on other rows")
axes[0].spines[["top", "right"]].set_visible(False)
for ax, weights, title in (
    (axes[1], model.kernel_weights_[np.argsort(labels)], "learned"),
    (axes[2], data.kernel_weights, "true"),
):
    ax.imshow(weights, aspect="auto", cmap="YlGnBu", vmin=0)
    ax.set(title=f"{title} kernel weights", xlabel="kernel", ylabel="task")
plt.show()

# %%
# The tasks whose kernel weights are most like those of one task of each group: the cosine of their rows of weights.

rows = model.kernel_weights_ / np.linalg.norm(model.kernel_weights_, axis=1, keepdims=True)
for task in ("task00", "task39"):
    likeness = rows @ rows[model.tasks_.tolist().index(task)]
    print(task, [f"{model.tasks_[other]} {likeness[other]:.2f}" for other in np.argsort(-likeness)[1:5]])
