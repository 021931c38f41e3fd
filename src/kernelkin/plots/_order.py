"""In which order tasks are drawn: the leaves of a dendrogram, so that similar tasks are neighbours."""

from __future__ import annotations

import numpy as np


def weight_linkage(weights: np.ndarray) -> np.ndarray | None:
    """Average linkage of tasks by their kernel weights (T, K); None for a single task."""
    from scipy.spatial.distance import pdist

    return _linkage(pdist(weights))


def leaf_order(linkage: np.ndarray | None) -> np.ndarray:
    """A permutation of the tasks."""
    from scipy.cluster.hierarchy import leaves_list

    return np.zeros(1, dtype=np.intp) if linkage is None else leaves_list(linkage).astype(np.intp)


def _linkage(distances: np.ndarray) -> np.ndarray | None:
    from scipy.cluster.hierarchy import linkage

    return linkage(distances, method="average", optimal_ordering=True) if len(distances) else None
