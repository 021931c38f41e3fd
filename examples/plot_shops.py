"""
Few days, many shops
====================

Twelve ice-cream shops want to know what they will sell. Each has a handful of days on record: too few to learn from
alone. All shops sell more when it is warm. The shops at the sea also depend on how close the next holiday is, those in
town on the price; the effect differs from shop to shop. The model is given none of this.

A part of the function that all shops have in common (``couplings="common"``) is learned from the days of all shops, and
what is particular to a shop from its own.
"""

# %%
# The data: five things known about a day, of which a shop depends on two.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kernelkin import AverageRegressor, IMKLRegressor, MKMTRLRegressor, MultiTaskCV, gaussian_kernels, linear_kernels
from kernelkin.plots import PartSharesDisplay

N_SHOPS, N_TEST = 12, 100


def make_shops(n_days, seed=0):
    """X (a row for each day of each shop), y (sales in standard units), the shop of each row."""
    rng = np.random.default_rng(seed)
    shops = np.repeat([f"sea {i}" for i in range(1, 7)] + [f"town {i}" for i in range(1, 7)], n_days)
    n = len(shops)
    X = pd.DataFrame(
        {
            "temperature": rng.uniform(5, 35, n),
            "rain": rng.exponential(2, n),
            "holiday": rng.uniform(0, 1, n),
            "price": rng.uniform(2, 4, n),
            "humidity": rng.uniform(30, 90, n),
        }
    )
    size, taste = (
        rng.normal(0, 0.5, N_SHOPS).repeat(n_days),
        (rng.normal(1, 0.2, N_SHOPS) * np.tile([1, -1], 6)).repeat(n_days),
    )
    warm = 2 * np.exp(-(((X["temperature"] - 27) / 8) ** 2))
    own = np.where(np.char.startswith(shops, "sea"), np.sin(6 * X["holiday"]), np.sin(3 * (X["price"] - 3)))
    return X, (size + warm + taste * own + rng.normal(0, 0.3, n)).to_numpy(), shops


# %%
# One Gaussian kernel for each column, and a linear one on all of them. Three models choose their parameter by
# cross-validation inside the shops: the average of the kernels, each shop on its own (IMKL), and MK-MTRL with a part in
# common.

kernels = [gaussian_kernels(1.0, per_feature=True), linear_kernels()]
strengths = {"mu": [1e-3, 1e-2, 1e-1, 1]}
models = {
    "average kernel": (AverageRegressor(kernels), {"C": [1, 10, 100]}),
    "each shop alone (IMKL)": (IMKLRegressor(kernels), strengths),
    "MK-MTRL, common part": (MKMTRLRegressor(kernels, couplings="common", min_rank=2), strengths),
}

days = [8, 12, 20, 40]
scores = {name: [] for name in models}
fitted = {}
for n in days:
    X, y, shops = make_shops(n + N_TEST)
    train = np.tile(np.arange(n + N_TEST) < n, N_SHOPS)
    for name, (model, grid) in models.items():
        search = MultiTaskCV(model, grid, cv=3, random_state=0).fit(X[train], y[train], tasks=shops[train])
        scores[name].append(search.score(X[~train], y[~train], tasks=shops[~train]))
        fitted[name, n] = search.best_estimator_

for name, values in scores.items():
    print(f"{name:24s}", "  ".join(f"{n} days: {value:.2f}" for n, value in zip(days, values, strict=True)))

# %%
# Left, how well other days are predicted: the fewer days per shop has, the more it gains. Right, the kernels of what is
# common and of what is each shop's own, learned from 20 days per shop.

model = fitted["MK-MTRL, common part", 20]
weights = np.vstack([model.coupling_weights_, model.kernel_weights_])
shares = weights / weights.sum(axis=1, keepdims=True)
columns = [*X.columns, "linear"]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
styles = [("o", "--", "#E69F00"), ("^", "-.", "#56B4E9"), ("s", "-", "#0072B2")]
for (name, values), (marker, line, color) in zip(scores.items(), styles, strict=True):
    left.plot(days, values, marker=marker, linestyle=line, color=color, label=name)
left.set(xscale="log", xlabel="training days per shop", ylabel="R² on other days", title="How well sales are predicted")
left.set_xticks(days, labels=days)
left.minorticks_off()
left.spines[["top", "right"]].set_visible(False)
left.legend(frameon=False)
image = right.imshow(shares, cmap="YlGnBu", vmin=0, aspect="auto")
right.set_yticks(range(13), labels=["all shops", *model.tasks_])
right.set_xticks(range(6), labels=columns, rotation=30, ha="right")
right.axhline(0.5, color="white", linewidth=4)
right.set_title("What they depend on")
right.spines[:].set_visible(False)
figure.colorbar(image, label="share of the kernel")
plt.show()

# %%
# How much of the variance of each shop's function is its own and how much is common (a share is negative where one part
# takes back some of the other). The fit comes with a certificate: how far at most it is from the best there is.

PartSharesDisplay.from_estimator(model)
plt.show()
print(f"relative duality gap {model.duality_gap_ / model.objective_:.1e}")
