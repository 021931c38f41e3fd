"""
Image classes and their descriptors
===================================

Sky or water? A tree or a roof? Pieces of two photographs belong to six classes. Each piece is described in five ways:
its colours, how light it is, the directions of its edges, its local patterns, and a tiny copy of it. Which descriptors
does each class need, and do some classes need the same ones?
"""

# %%
# Squares of 12 x 12 pixels, cut from areas that show one thing. Those of an area's left half are for training, those of
# its right half for the test: neighbouring squares are too alike to be in both.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_sample_images

from kernelkin import AverageClassifier, MKMTRLClassifier, task_relations, view_kernels
from kernelkin.plots import KernelWeightsDisplay

SIDE = 12
# class: (photograph, first row, last row, first column, last column)
areas = {
    "sky": (0, 0, 144, 330, 630),
    "water": (0, 216, 300, 350, 540),
    "trees": (0, 320, 427, 340, 640),
    "pagoda": (0, 110, 350, 110, 300),
    "petals": (1, 130, 310, 205, 405),
    "leaves": (1, 0, 427, 470, 640),
}
photographs = [image / 255.0 for image in load_sample_images().images]


def cut(photograph, top, bottom, left, right, count=36, seed=0):
    """Squares (count, SIDE, SIDE, 3) from a grid over an area, and whether each is in the left half."""
    y, x = np.mgrid[top : bottom - SIDE : SIDE, left : right - SIDE : SIDE].reshape(2, -1)
    chosen = np.random.default_rng(seed).permutation(len(y))[:count]
    image = photographs[photograph]
    squares = [image[i : i + SIDE, j : j + SIDE] for i, j in zip(y[chosen], x[chosen], strict=True)]
    return np.array(squares), x[chosen] + SIDE / 2 < (left + right) / 2


names = list(areas)
pieces = [cut(*area) for area in areas.values()]
images = np.concatenate([squares for squares, _ in pieces])
train = np.concatenate([left for _, left in pieces])
classes = np.repeat(np.arange(len(names)), [len(squares) for squares, _ in pieces])
print(f"{train.sum()} squares for training, {(~train).sum()} for the test")

figure, axes = plt.subplots(len(names), 10, figsize=(6, 4))
for c, row in enumerate(axes):
    for axis, image in zip(row, images[classes == c], strict=False):
        axis.imshow(image)
        axis.set(xticks=[], yticks=[])
    row[0].set_ylabel(names[c], rotation=0, ha="right", va="center")
plt.show()

# %%
# Descriptors are histograms, which add up to one, so that the chi-squared kernel suits all of them.


def histogram(codes, n_codes, weights=None):
    """Codes (n, ...) from 0 to n_codes - 1 -> their shares (n, n_codes) in each image, weighted."""
    flat = codes.reshape(len(codes), -1)
    weights = np.ones(flat.shape) if weights is None else weights.reshape(flat.shape) + 1e-9
    counts = np.array([np.bincount(c, w, n_codes) for c, w in zip(flat, weights, strict=True)])
    return counts / counts.sum(axis=1, keepdims=True)


def local_patterns(grey):
    """Which of the eight neighbours of a pixel are lighter, as a number below 256."""
    middle = grey[:, 1:-1, 1:-1]
    steps = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]
    neighbours = [grey[:, i : i + SIDE - 2, j : j + SIDE - 2] for i, j in steps]
    return sum((near > middle).astype(int) << bit for bit, near in enumerate(neighbours))


grey = images.mean(axis=3)
down, right = np.gradient(grey, axis=(1, 2))
direction = ((np.arctan2(down, right) / np.pi + 1) * 4).astype(int) % 8
# The share of each of the three colours, without how light it is.
share = images / np.maximum(images.sum(axis=3, keepdims=True), 1e-9)
colour = (share[..., 0] * 11.99).astype(int) * 12 + (share[..., 1] * 11.99).astype(int)
tiny = grey.reshape(len(grey), 4, 3, 4, 3).mean(axis=(2, 4)).reshape(len(grey), -1)
descriptors = {
    "colour": histogram(colour, 144),
    "lightness": histogram((grey * 9.99).astype(int), 10),
    "edges": histogram(direction, 8, np.hypot(down, right)),
    "patterns": histogram(local_patterns(grey), 256),
    "tiny copy": tiny / tiny.sum(axis=1, keepdims=True),
}
X = np.hstack(list(descriptors.values()))
ends = np.cumsum([values.shape[1] for values in descriptors.values()])
views = {name: slice(end - values.shape[1], end) for (name, values), end in zip(descriptors.items(), ends, strict=True)}
kernels = view_kernels(views, "chi2")

# %%
# One task for each class, all on the same rows; a square is given the class of the largest value.

Y = pd.DataFrame({name: (classes == c).astype(int) for c, name in enumerate(names)})
model = MKMTRLClassifier(kernels, C=10, min_rank=2, class_weight="balanced").fit(X[train], Y[train])
average = AverageClassifier(kernels, C=10, class_weight="balanced").fit(X[train], Y[train])
for name, fitted in (("MK-MTRL", model), ("average kernel", average)):
    right_class = fitted.decision_function(X[~train]).argmax(axis=1) == classes[~train]
    print(f"{name:15s} right: {right_class.mean():.1%}")

# %%
# The descriptors that each class uses.

KernelWeightsDisplay.from_estimator(model)
plt.show()

# %%
# The sky is found by how light it is. Water, which has the colours of the sky, is between it and the others. Do the
# classes have functions that are alike? The test of relations says so only where chance does not explain what is seen.

print(task_relations(model, X[train], Y[train], random_state=0))
