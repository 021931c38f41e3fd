"""What each task's rows say against the mix of kernels that all tasks have in common.

The targets of task t, centred, are taken as a draw from a Gaussian process with covariance `s (sum_k m_k G_k) + v I`:
one mix m for all tasks, a variance s and a noise v for each. The derivative of its log likelihood by the mix is zero
on average where the mix is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..decompositions import eigh, pseudo_inverse
from .pooled import PooledKernels, centred

# Ratios of noise to variance that are tried.
NOISE = np.logspace(-3, 3, 25)


@dataclass(frozen=True)
class MixScores:
    """Of one task.

    Attributes
    ----------
    scores : (K,) derivative of the log likelihood by the mix, with variance and noise taken out.
    information : (K, K) its covariance where the mix is right.
    draws : (n, K) scores of targets drawn with the common mix.
    """

    scores: np.ndarray
    information: np.ndarray
    draws: np.ndarray


@dataclass(frozen=True)
class TaskProcess:
    """The Gaussian process of one task: V = Q diag(spectrum) Q' on its centred rows."""

    grams: np.ndarray
    vectors: np.ndarray
    spectrum: np.ndarray
    variance: float

    @classmethod
    def fit(cls, grams: np.ndarray, mix: np.ndarray, y: np.ndarray) -> TaskProcess:
        """grams (K, n, n) centred, mix (K,), y (n, M) centred; variance and noise by maximum likelihood."""
        values, vectors = eigh(np.tensordot(mix, grams, axes=1))
        # Centring leaves one direction empty.
        values, vectors = np.maximum(values[1:], 0.0), vectors[:, 1:]
        inside = np.square(vectors.T @ y).mean(axis=1)
        scales = (inside / (values + NOISE[:, np.newaxis])).mean(axis=1)
        likelihood = -np.log(np.maximum(scales, 1e-300)) - np.log(values + NOISE[:, np.newaxis]).mean(axis=1)
        best = int(np.argmax(likelihood))
        variance = max(float(scales[best]), 1e-300)
        return cls(grams, vectors, variance * (values + NOISE[best]), variance)

    def whitened(self, y: np.ndarray) -> np.ndarray:
        """V^(-1/2) y, in the directions of V."""
        return (self.vectors.T @ y) / np.sqrt(self.spectrum)[:, np.newaxis]

    def scores(self, y: np.ndarray, mix: np.ndarray, normals: np.ndarray) -> MixScores:
        """Scores of targets y (n, M), and of targets that normals (n - 1, M, B) stand for."""
        inverse = (self.vectors / self.spectrum) @ self.vectors.T
        products = self.variance * np.einsum("ij,kjl->kil", inverse, self.grams)
        products = np.concatenate([products, inverse[np.newaxis]])
        flat = products.reshape(len(products), -1)
        M = y.shape[1]
        information = 0.5 * M * flat @ products.transpose(0, 2, 1).reshape(len(products), -1).T
        expected = M * np.einsum("kii->k", products)
        nuisance = np.zeros((len(products), 2))
        nuisance[:-1, 0], nuisance[-1, 1] = mix, 1.0
        cross = information @ nuisance
        taken = cross @ pseudo_inverse(nuisance.T @ cross) @ nuisance.T
        observed = self._forms((self.vectors / self.spectrum) @ (self.vectors.T @ y))[:, np.newaxis]
        drawn = self._forms((self.vectors / np.sqrt(self.spectrum)) @ normals.reshape(len(normals), -1), M)
        every = 0.5 * (np.hstack([observed, drawn]) - expected[:, np.newaxis])
        every = every - taken @ every
        information = information - taken @ information
        return MixScores(every[:-1, 0], 0.5 * (information + information.T)[:-1, :-1], every[:-1, 1:].T)

    def _forms(self, a: np.ndarray, M: int | None = None) -> np.ndarray:
        """Quadratic forms (K + 1,) of the columns of a (n, M), added up; or (K + 1, B) of a (n, M B)."""
        forms = [self.variance * np.einsum("nb,nb->b", a, gram @ a) for gram in self.grams]
        forms.append(np.square(a).sum(axis=0))
        stacked = np.stack(forms)
        return stacked.sum(axis=1) if M is None else stacked.reshape(len(stacked), M, -1).sum(axis=1)


def task_grams(kernels: PooledKernels, X: np.ndarray, rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Gram matrices (K, n, n) of the rows of one task, centred, divided by a scale (K,)."""
    return centred(kernels.grams(X, rows, rows)) / scale[:, np.newaxis, np.newaxis]
