"""Problems and streams for the tests of two-stage models."""

import numpy as np

from kernelkin import (
    TwoStageMKMTRLClassifier,
    TwoStageMKMTRLRegressor,
)
from kernelkin.datasets import make_related_tasks

BOTH = {"classification": TwoStageMKMTRLClassifier, "regression": TwoStageMKMTRLRegressor}


def problem(kind, seed=0, **options):
    options = {
        "n_tasks": 6,
        "n_groups": 2,
        "n_kernels": 4,
        "n_relevant": 1,
        "n_samples": 40,
        "test_size": 40,
        **options,
    }
    return make_related_tasks(regression=kind == "regression", noise=0.05, random_state=seed, **options)


def stream(kind, data, cuts, seed=0, **options):
    """A model that has seen the rows of `data`, shuffled and several times, cut into pieces."""
    model = BOTH[kind](data.kernels, random_state=0, **{"update": "hinge", "reservoir": 15, **options})
    order = np.tile(np.random.default_rng(seed).permutation(len(data.data)), 6)
    for part in np.split(order, cuts):
        model.partial_fit(data.data[part], data.target[part], data.tasks[part])
    return model
