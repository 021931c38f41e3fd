"""Other libraries, as their users would call them; each is left out where it is not installed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

HAS_MKLPY = find_spec("MKLpy") is not None
HAS_HIMALAYA = find_spec("himalaya") is not None


def mklpy_tasks(name: str, stacks: Sequence[np.ndarray], targets: Sequence[np.ndarray], C: float) -> list[Any]:
    """EasyMKL or GRAM with an SVM, one task after the other."""
    import MKLpy.algorithms
    import torch
    from sklearn.svm import SVC

    torch.set_num_threads(1)
    models = []
    with warnings.catch_warnings():
        # It calls torch in ways that torch advises against, which is none of a benchmark's business.
        warnings.simplefilter("ignore", UserWarning)
        for stack, y in zip(stacks, targets, strict=True):
            learner = SVC(C=C, kernel="precomputed", class_weight="balanced")
            model = getattr(MKLpy.algorithms, name)(learner=learner)
            models.append(model.fit([torch.as_tensor(gram) for gram in stack], y))
    return models


def mklpy_decisions(models: Sequence[Any], crosses: Sequence[np.ndarray]) -> np.ndarray:
    """Crosses (K, q, n) of each task -> values of all their rows in order."""
    import torch

    parts = [
        np.asarray(model.decision_function([torch.as_tensor(cross) for cross in crosses_of]))
        for model, crosses_of in zip(models, crosses, strict=True)
    ]
    return np.concatenate(parts)


def himalaya_fit(solver: str, stack: np.ndarray, Y: np.ndarray) -> Any:
    """`MultipleKernelRidgeCV` on precomputed Grams (K, n, n); its hyper-gradient has no intercept, so Y is centred."""
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    settings: dict[str, dict[str, Any]] = {
        "random_search": {"n_iter": 20, "alphas": np.logspace(-3, 3, 7)},
        "hyper_gradient": {"max_iter": 50},
    }
    model = MultipleKernelRidgeCV(
        kernels="precomputed",
        solver=solver,
        solver_params={"progress_bar": False, **settings[solver]},
        cv=3,
        random_state=0,
    )
    return model.fit(stack, Y)
