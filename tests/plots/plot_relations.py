"""Relations to draw."""

import numpy as np
from scipy.cluster.hierarchy import linkage

from kernelkin.relations import TaskRelations


def relations(groups, tasks=None, p_value=0.005, alpha=0.05):
    """Relations of these groups; likeness falls with the distance of their labels, below zero too."""
    groups = np.asarray(groups)
    T = len(groups)
    names = np.unique(groups)
    likeness = 1.0 - 0.7 * np.abs(names[:, np.newaxis] - names)
    return TaskRelations(
        tasks=np.array([f"school {t + 1}" for t in range(T)]) if tasks is None else np.asarray(tasks),
        structured=p_value <= alpha,
        p_value=p_value,
        pairs=np.stack([likeness] * 3, axis=2),
        groups=groups,
        linkage=tree(groups),
        null="permutation",
        reason="the groups have similar inputs, levels and noise",
        alpha=alpha,
        n_permutations=199,
        left_out=np.array([]),
    )


def tree(groups):
    """Tasks of one group are joined first, at height zero."""
    return linkage(groups[:, np.newaxis].astype(float), method="average")
