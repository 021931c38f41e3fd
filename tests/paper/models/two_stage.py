"""Problems for the tests of two-stage models."""

from kernelkin import TwoStageMKMTRLClassifier, TwoStageMKMTRLRegressor
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
