"""
Coupled tasks with many rows
============================

Tasks that have a part of their functions in common make one machine over the rows of all tasks, and its matrices grow
with the square of their number. With the squared loss the common part can be approximated by factors of
``shared_rank`` columns, while the tasks' own parts stay exact. How many columns are enough?
"""

# %%
# The data: 30 sensors, a curve that all have in common, and a slope of each.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from kernelkin import MKMTRLRegressor, gaussian_kernels
from kernelkin.exceptions import ApproximationWarning

rng = np.random.default_rng(0)


def make_sensors(n_sensors, n_rows):
    sensors = np.repeat(np.arange(n_sensors), n_rows)
    X = rng.normal(size=(len(sensors), 3))
    slopes = rng.normal(size=n_sensors)
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.5 * slopes[sensors] * X[:, 2] + 0.3 * rng.normal(size=len(X))
    return X, y, sensors


X, y, sensors = make_sensors(30, 60)
train = np.tile(np.arange(60) < 40, 30)
kernels = gaussian_kernels((0.25, 0.5, 1.0, 2.0))

# %%
# The exact fit, and factors with more and more columns. The objective of an approximated problem is above the exact
# one, as less can be fitted. With 200 columns for 1,200 training rows, held-out rows are predicted about as well as by
# the exact fit.

exact = MKMTRLRegressor(kernels, couplings="common", C=3.0, shared_rank=None)
exact.fit(X[train], y[train], tasks=sensors[train])
ranks, objectives, scores = [20, 50, 100, 200, 400], [], []
for rank in ranks:
    model = MKMTRLRegressor(kernels, couplings="common", C=3.0, shared_rank=rank)
    model.fit(X[train], y[train], tasks=sensors[train])
    objectives.append(model.objective_ / exact.objective_)
    scores.append(model.score(X[~train], y[~train], tasks=sensors[~train]))

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.plot(ranks, objectives, "o-")
left.axhline(1.0, color="0.5", linestyle="--", label="exact")
left.set(xscale="log", xlabel="columns (shared_rank)", ylabel="objective, relative to the exact fit")
right.plot(ranks, scores, "o-")
right.axhline(exact.score(X[~train], y[~train], tasks=sensors[~train]), color="0.5", linestyle="--", label="exact")
right.set(xscale="log", xlabel="columns (shared_rank)", ylabel="mean R2 of sensors, held-out rows")
right.legend()

# %%
# With more than 5,000 rows this is the default, and a warning says what it comes to. ``shared_error_`` is the share of
# each kernel's trace that its factor lacks: the narrowest Gaussian has the most.

X, y, sensors = make_sensors(60, 85)
with warnings.catch_warnings(record=True) as shown:
    warnings.simplefilter("always", ApproximationWarning)
    model = MKMTRLRegressor(kernels, couplings="common", C=3.0).fit(X, y, tasks=sensors)
print(shown[0].message)
print(dict(zip(model.kernel_names_.tolist(), model.shared_error_.round(4).tolist(), strict=True)))
