"""
Kernels of your own
===================

A kernel can be a name, a member of a family, a family on named columns (a *view*), or any function of two sets of rows.
Here: wines described by their chemistry, in tasks by grower.
"""

# %%
# Wines from three growers. Each grower wants to predict the flavanoids of a wine from the rest of its analysis.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from kernelkin import AverageRegressor, MKMTRLRegressor, gaussian_kernels, view_kernels
from kernelkin.plots import KernelWeightsDisplay

wine = load_wine(as_frame=True)
growers = np.array(["grower A", "grower B", "grower C"])[wine.target]
X = wine.data.drop(columns="flavanoids")
X[:] = StandardScaler().fit_transform(X)
y = wine.data["flavanoids"].to_numpy()
print({grower: int((growers == grower).sum()) for grower in sorted(set(growers.tolist()))})

# %%
# Three views by the names of their columns, with two Gaussians each, and a kernel of our own: wines are alike if their
# analyses *rank* alike, however strong they are. A callable takes rows X and Y and returns their kernel matrix; it is
# checked to be symmetric and positive semi-definite when a model is fitted.

views = {
    "acids": ["malic_acid", "ash", "alcalinity_of_ash", "magnesium"],
    "phenols": ["total_phenols", "nonflavanoid_phenols", "proanthocyanins", "od280/od315_of_diluted_wines"],
    "look": ["color_intensity", "hue"],
    "strength": ["alcohol", "proline"],
}


def rank_profile(X, Y):
    """The correlation of the orders of the columns, (n, m)."""

    def ranks(rows):
        order = rows.argsort(axis=1).argsort(axis=1) - (rows.shape[1] - 1) / 2
        return order / np.linalg.norm(order, axis=1, keepdims=True)

    return ranks(X) @ ranks(Y).T


kernels = [view_kernels(views, gaussian_kernels((1, 3))), rank_profile, "linear"]

# %%
# Half of the wines to learn from, five times over. What the growers have in common is a part of its own.

scores = {"MK-MTRL, common part": [], "average kernel": []}
for seed in range(5):
    X_train, X_test, y_train, y_test, train, test = train_test_split(
        X, y, growers, train_size=0.5, stratify=growers, random_state=seed
    )
    model = MKMTRLRegressor(kernels, C=1, mu=1, min_rank=2, couplings="common").fit(X_train, y_train, tasks=train)
    average = AverageRegressor(kernels, C=3).fit(X_train, y_train, tasks=train)
    for name, fitted in zip(scores, (model, average), strict=True):
        scores[name].append(fitted.score(X_test, y_test, tasks=test))
for name, values in scores.items():
    print(f"{name:20s} R² {np.mean(values):.3f} ± {np.std(values, ddof=1) / np.sqrt(5):.3f}")

# %%
# The kernels that the growers' own parts use in the last of the five fits.

KernelWeightsDisplay.from_estimator(model)
plt.show()

# %%
# One wine's predicted flavanoids as a sum over kernels.

split = model.predict(X_test[:1], tasks=test[:1], split=True)
plt.figure(figsize=(6, 3), layout="constrained")
plt.barh(["intercept", *split.kernels], [split.intercept[0], *split.parts[0]])
plt.xlabel(f"parts of the prediction {split.prediction[0]:.2f}")
plt.show()
