"""Kernels between images, and splits into training and test images."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import numpy as np

from .images_kernels import KERNELS, Descriptors
from .protocol import Metric, Setting, Split

# The folder of descriptors and of the distances computed from them.
FOLDER = "KERNELKIN_IMAGES"
# Added to the diagonal of a kernel, which has ones there: more than what rounding to single precision may take from its
# eigenvalues, and too little to change what is learned.
_RIDGE = 1e-4


def folder() -> Path:
    """Where descriptors are stored."""
    given = os.environ.get(FOLDER)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else base / "kernelkin" / "images"


@cache
def load(data_set: str) -> Descriptors:
    """The descriptors of a data set; they are extracted first where they are not stored yet."""
    path = folder() / f"{data_set}.npz"
    if not path.exists():
        from .images_extract import ARCHIVES, extract

        data = os.environ.get("KERNELKIN_DATA")
        archive = Path(data or ".") / ARCHIVES[data_set]
        if not archive.exists():
            raise FileNotFoundError(f"{path} is not there, nor {archive}, from which it is made (KERNELKIN_DATA)")
        extract(data_set, archive, folder(), n_jobs=os.cpu_count() or 1)
    return Descriptors(path)


@cache
def distances(data_set: str) -> np.ndarray:
    """(K, n, n) float32 distances, from a file that is written the first time."""
    path = folder() / f"{data_set} distances.npy"
    if not path.exists():
        descriptors, kernels = load(data_set), KERNELS[data_set]
        n = len(descriptors.names)
        part = path.with_suffix(f".{os.getpid()}.part")
        out = np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=(len(kernels), n, n))
        for k, kernel in enumerate(kernels):
            out[k] = descriptors.distances(kernel)
            print(f"{data_set}: {k + 1} of {len(kernels)} kernels, {kernel.name}", file=sys.stderr, flush=True)
        out.flush()
        del out
        part.replace(path)
    return np.load(path, mmap_mode="r")


def draw(data_set: str, size: int, run: int) -> tuple[np.ndarray, np.ndarray]:
    """Training images, `size` of each class, and all others; a smaller size has part of the larger one's images."""
    labels = load(data_set).labels
    rng = np.random.default_rng([run, 17])
    orders = [rng.permutation(np.flatnonzero(labels == c)) for c in range(labels.max() + 1)]
    train = np.sort(np.concatenate([order[:size] for order in orders]))
    return train, np.setdiff1d(np.arange(len(labels)), train)


def split(data_set: str, setting: Setting, run: int) -> Split:
    """Kernels exp(-d / mean d), the mean over training images; one column of y for each class."""
    train, test = draw(data_set, setting.size, run)
    stack = distances(data_set)
    among = np.empty((len(stack), len(train), len(train)), dtype=np.float32)
    between = np.empty((len(stack), len(test), len(train)), dtype=np.float32)
    for values, gram, cross in zip(stack, among, between, strict=True):
        rows = values[train]  # whole rows of the file: the columns of the test images are in them
        rows.take(train, axis=1, out=gram, mode="clip")
        width = gram.mean(dtype=np.float64) * len(train) / (len(train) - 1)
        cross[...] = rows.take(test, axis=1).T
        for part in (gram, cross):
            part /= np.float32(-width)
            np.exp(part, out=part)
        gram[np.diag_indices_from(gram)] += np.float32(_RIDGE)
    descriptors = load(data_set)
    Y = np.eye(len(descriptors.classes))[descriptors.labels]
    return Split(
        X=np.moveaxis(among, 0, 2),
        y=Y[train],
        X_test=np.moveaxis(between, 0, 2),
        y_test=Y[test],
        task_names=descriptors.classes.tolist(),
    )


def _recall(y: np.ndarray, predicted: np.ndarray) -> float:
    """The share of a class's images that are given it; NaN without any."""
    return float(predicted[y > 0].mean()) if (y > 0).any() else float("nan")


ACCURACY = Metric("accuracy, mean over classes", _recall, "accuracy", larger_is_better=True)
OF_IMAGES = Metric(
    "accuracy, mean over images",
    lambda y, predicted: float((y * predicted).sum() / y.sum()),
    "accuracy",
    larger_is_better=True,
    pooled=True,
)
