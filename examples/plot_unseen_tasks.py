"""
Tasks never seen
================

A new task has no rows to learn from. What all tasks have in common still applies to it:
``MKMTRLRegressor(couplings="common", unknown_tasks="common")``. Whether that can be trusted is measured before it is
needed, on tasks that are held out: scikit-learn's ``LeaveOneGroupOut``.
"""

# %%
# Patients of a diabetes study, in tasks by age. One group of patients is to be predicted although no patient of its age
# was in training.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.metrics import r2_score
from sklearn.model_selection import LeaveOneGroupOut

from kernelkin import MKMTRLRegressor, gaussian_kernels, linear_kernels

X, y = load_diabetes(return_X_y=True, as_frame=True)
y = ((y - y.mean()) / y.std()).to_numpy()
edges = np.quantile(X["age"], np.linspace(0, 1, 9)[1:-1])
names = np.array([f"age {i}" for i in range(1, 9)])
tasks = names[np.digitize(X["age"], edges)]
X = X.drop(columns="age")
print({name: int((tasks == name).sum()) for name in names.tolist()})

# %%
# Hold out one age at a time, and score it by the part that the other ages have in common.

kernels = [gaussian_kernels((1.0, 3.0)), linear_kernels()]
model = MKMTRLRegressor(kernels, C=1, mu=10, couplings="common", unknown_tasks="common")
held = {}
for train, test in LeaveOneGroupOut().split(X, y, groups=tasks):
    model.fit(X.iloc[train], y[train], tasks=tasks[train])
    held.update(model.score_tasks(X.iloc[test], y[test], tasks=tasks[test]))

# %%
# Against what a model of the same ages would say of patients it has not seen: five-fold cross-validation inside each
# age, without couplings.

fold = np.empty(len(y), dtype=int)
for name in names:
    rows = np.flatnonzero(tasks == name)
    fold[rows] = np.random.default_rng(0).permutation(len(rows)) % 5
alone = np.empty(len(y))
for k in range(5):
    train, test = fold != k, fold == k
    model = MKMTRLRegressor(kernels, C=1, mu=10).fit(X[train], y[train], tasks=tasks[train])
    alone[test] = model.predict(X[test], tasks=tasks[test])
own = {name: r2_score(y[tasks == name], alone[tasks == name]) for name in names}

figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
place = np.arange(len(names))
ax.bar(place - 0.2, [held[name] for name in names], 0.4, color="#0072B2", label="never seen: common part of the others")
ax.bar(place + 0.2, [own[name] for name in names], 0.4, color="#E69F00", hatch="///", label="seen: each age on its own")
ax.set_xticks(place, labels=names)
ax.set_ylabel("R²")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
plt.show()
print(f"never seen {np.mean(list(held.values())):.3f}, on its own {np.mean(list(own.values())):.3f}")

# %%
# How much of the variance of each age's function is common to all ages? A share is negative if one part cancels some
# of the other.

model = MKMTRLRegressor(kernels, C=1, mu=10, couplings="common").fit(X, y, tasks=tasks)
own, common = model.part_shares_.T
for age, share in zip(model.tasks_, common, strict=True):
    print(f"{age}: {share:.0%} is common to all ages")

# %%
# Predicting a task that was never named: an error by default, the common part on request.

try:
    model.predict(X[:2], tasks=["age 9", "age 9"])
except ValueError as error:
    print("ValueError:", error)
print(model.set_params(unknown_tasks="common").predict(X[:2], tasks=["age 9", "age 9"]))
