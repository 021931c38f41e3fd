"""Tasks as points of the plane: how far apart they are says how different, and the strongest links are lines."""

from __future__ import annotations

import numpy as np

from ..decompositions import eigh

# Links of each task to others, at most; weaker ones than this correlation are never drawn.
NEIGHBOURS = 3
WEAKEST = 0.1
# How far apart tasks of correlation one are drawn, where those of correlation zero are at this and 1.4.
APART = 0.5


def layout(correlation: np.ndarray, steps: int = 300) -> np.ndarray:
    """correlation (T, T) -> positions (T, 2) whose distances come near sqrt(2 - 2 correlation) and a little.

    Multidimensional scaling: the classical solution, improved by majorisation of the stress.
    """
    target = APART + np.sqrt(np.maximum(2.0 - 2.0 * correlation, 0.0))
    np.fill_diagonal(target, 0.0)
    positions = _classical(target)
    for _ in range(steps):
        positions = _majorise(positions, target)
    return positions


def _classical(distances: np.ndarray) -> np.ndarray:
    T = len(distances)
    centre = np.eye(T) - 1.0 / T
    values, vectors = eigh(-0.5 * centre @ distances**2 @ centre)
    plane = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def _majorise(positions: np.ndarray, target: np.ndarray) -> np.ndarray:
    """One Guttman transform, which never raises the stress."""
    distances = np.linalg.norm(positions[:, np.newaxis] - positions, axis=-1)
    ratio = np.divide(target, distances, out=np.zeros_like(target), where=distances > 0)
    return (ratio.sum(axis=1, keepdims=True) * positions - ratio @ positions) / len(positions)


def strongest_links(correlation: np.ndarray) -> np.ndarray:
    """Pairs of tasks (E, 2) of which one is among the other's most correlated ones; first the smaller index."""
    others = correlation - np.diag(np.full(len(correlation), np.inf))
    nearest = np.argsort(-others, axis=1, kind="stable")[:, : min(NEIGHBOURS, len(correlation) - 1)]
    pairs = {(min(i, j), max(i, j)) for i, row in enumerate(nearest.tolist()) for j in row}
    strong = [pair for pair in sorted(pairs) if correlation[pair] >= WEAKEST]
    return np.array(strong, dtype=np.intp).reshape(-1, 2)
