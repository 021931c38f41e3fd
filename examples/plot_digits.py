"""
Ten digits, ten tasks
=====================

Is it a 0? Is it a 1? ... Ten questions about the same images make ten tasks on the same rows: the *wide* form of data,
where ``y`` has a column for each task. An image is looked at in seven ways (*views*): the whole of it, its four
quarters, and the sums of its rows and of its columns. Which views does each digit need?
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kernelkin import AverageClassifier, MKMTRLClassifier, gaussian_kernels, view_kernels
from kernelkin.plots import KernelWeightsDisplay, TaskRelationshipDisplay

pixels, digits = load_digits(return_X_y=True)
images = pixels.reshape(-1, 8, 8) / 16
X = np.hstack([images.reshape(-1, 64), images.sum(axis=2), images.sum(axis=1)])
grid = np.arange(64).reshape(8, 8)
kernels = view_kernels(
    {
        "whole": grid.ravel(),
        "upper left": grid[:4, :4].ravel(),
        "upper right": grid[:4, 4:].ravel(),
        "lower left": grid[4:, :4].ravel(),
        "lower right": grid[4:, 4:].ravel(),
        "row sums": np.arange(64, 72),
        "column sums": np.arange(72, 80),
    },
    gaussian_kernels((0.5, 1.0)),
)

# %%
# 150 images to learn from, about fifteen of each digit. The average of good kernels is hard to beat; the fit also
# shows which of them each digit needs.

Y = (digits[:, np.newaxis] == np.arange(10)).astype(int)
split = train_test_split(X, Y, digits, train_size=150, stratify=digits, random_state=0)
X_train, X_test, Y_train, Y_test, _, digits_test = split

model = MKMTRLClassifier(kernels, mu=1.0, min_rank=2, class_weight="balanced").fit(X_train, Y_train)
average = AverageClassifier(kernels, class_weight="balanced").fit(X_train, Y_train)
for name, fitted in (("MK-MTRL", model), ("average kernel", average)):
    read = (fitted.decision_function(X_test).argmax(axis=1) == digits_test).mean()
    print(f"{name:15s} digits recognised: {read:.1%}")
print(f"relative duality gap: {model.duality_gap_ / model.objective_:.1e}")

# %%
# The views that each digit uses. Digits with similar needs stand next to each other.

KernelWeightsDisplay.from_estimator(model, grouped=True)
plt.show()

# %%
# Do some digits have functions that are more alike than others'? The test says so, or says that it cannot tell.

display = TaskRelationshipDisplay.from_estimator(model, X_train, Y_train, random_state=0)
print(display.relations)
plt.show()

# %%
# One answer taken apart: what each kernel says about the first test image being what it is.

digit = int(digits_test[0])
split = model.predict(X_test[:1], split=True)
parts = split.parts[0, digit]
plt.figure(figsize=(6, 3), layout="constrained")
plt.barh(["intercept", *split.kernels], [split.intercept[0, digit], *parts])
plt.xlabel(f"parts of the decision value of digit {digit}")
plt.show()
