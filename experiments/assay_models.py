"""Kernel models of assays: tasks are assays, rows are molecules. Parameters are chosen on training molecules alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from kernelkin import AverageClassifier, MKMTRLClassifier
from kernelkin.calibration import Link, fit_shifts
from kernelkin.paper import MultiTaskKernelClassifier
from kernelkin.paper.fitting.fit import Shape
from kernelkin.paper.penalties import FixedWeights

from .assay_data import AUC, RANDOM, divide
from .assay_kernels import MoleculeKernels
from .likeness import label_correlation
from .metrics import score_by_task

# Training molecules that are held out to choose parameters and to calibrate probabilities.
VALIDATION_SHARE = 0.2
# Molecules, and assays with the most labels, from which weights of kernels are learned.
MIX_ROWS, MIX_ASSAYS = 1500, 60


def mean_auc(y: np.ndarray, values: np.ndarray) -> float:
    """Mean over the columns of y (n, T), NaN where there is no label, that have both classes."""
    scores = score_by_task(AUC, y, values, None, [str(t) for t in range(y.shape[1])])
    return float(np.mean(list(scores.values())))


def calibrate(y: np.ndarray, values: np.ndarray) -> tuple[Link, np.ndarray]:
    """The link from values (n, T) of held-out molecules to probabilities, and shifts (T,); NaN in y or values: none."""
    known = [np.isfinite(y[:, t]) & np.isfinite(values[:, t]) for t in range(y.shape[1])]
    parts = [values[rows, t, np.newaxis] for t, rows in enumerate(known)]
    codes = [y[rows, t].astype(int) for t, rows in enumerate(known)]
    return fit_shifts(parts, codes, [np.ones(len(part)) for part in parts])


def equal_parts(shape: Shape) -> FixedWeights:
    """Weight one for the only kernel in each part."""
    return FixedWeights(np.ones((shape.n_kernels, shape.n_components)))


class AssayModel(ClassifierMixin, BaseEstimator):
    """What the models have in common: a part of the training molecules is held out to choose and to calibrate.

    Subclasses have the parameters `data` (the data set), `kind` (how molecules are held out) and `grid` (the values
    to choose from), and fit their parts in `train`.
    """

    data: str
    kind: str
    grid: Sequence[float]

    def fit(self, rows: np.ndarray, y: np.ndarray) -> Self:
        """rows (n,) numbers of molecules; y (n, T) with 1, 0, and NaN where a molecule was not tested."""
        self.rows_ = rows
        kept, held = divide(self.data, rows, self.kind, VALIDATION_SHARE, [len(rows), 1])
        self.prepare(rows, y, kept)
        values = [self.train(kept, y[kept], parameter)(held) for parameter in self.grid]
        scores = [mean_auc(y[held], each) for each in values]
        best = int(np.argmax(scores))
        self.chosen_: dict[str, Any] = {"parameter": float(self.grid[best]), "validation AUC": scores[best]}
        self.link_, self.shifts_ = calibrate(y[held], values[best])
        self.finish(rows, y, self.grid[best])
        return self

    def prepare(self, rows: np.ndarray, y: np.ndarray, kept: np.ndarray) -> None:
        """Make what all fits share."""

    def train(self, kept: np.ndarray, y: np.ndarray, parameter: float) -> Any:
        """Fit on positions `kept` of the training molecules: a function from other positions to values (q, T)."""
        raise NotImplementedError

    def finish(self, rows: np.ndarray, y: np.ndarray, parameter: float) -> None:
        """Fit on all training molecules."""
        raise NotImplementedError

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of molecules (q,) -> (q, T)."""
        raise NotImplementedError

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of molecules (q,) -> probabilities of being active (q, T)."""
        return self.link_(self.decision_function(rows) + self.shifts_)


class KernelModel(AssayModel):
    """A model of this library on one mix of the kernels between molecules.

    Parameters
    ----------
    data, kind, grid : as for all models; the grid has values of C.
    parts : {"own", "learned", "equal"}
        Each assay by itself; or with parts that assays share, one of all assays and one as far as their labels are
        correlated, whose weights beside the assays' own parts are learned, or equal, which is one solution of a linear
        system instead of several.
    weights : {"even", "learned"} or name of a kernel
        Weights of the kernels: all the same, learned by MK-MTRL on some of the molecules, or one kernel alone.
    tol : relative duality gap of a fit.
    """

    def __init__(self, data="tox21", kind=RANDOM, grid=(0.03,), parts="own", weights="even", tol=1e-2):
        self.data = data
        self.kind = kind
        self.grid = grid
        self.parts = parts
        self.weights = weights
        self.tol = tol

    def prepare(self, rows: np.ndarray, y: np.ndarray, kept: np.ndarray) -> None:
        self.kernels_ = MoleculeKernels(self.data, rows)
        self.mix_ = self._weights(rows, y, kept)
        self._gram = self.kernels_.mix(rows, rows, self.mix_)

    def train(self, kept: np.ndarray, y: np.ndarray, parameter: float) -> Any:
        model = self._model(parameter, y).fit(self._gram[np.ix_(kept, kept)][:, :, np.newaxis], y)
        return lambda held: model.decision_function(self._gram[np.ix_(held, kept)][:, :, np.newaxis])

    def finish(self, rows: np.ndarray, y: np.ndarray, parameter: float) -> None:
        self.model_ = self._model(parameter, y).fit(self._gram[:, :, np.newaxis], y)
        del self._gram
        for name in ("duality_gap_", "objective_", "effective_rank_"):
            setattr(self, name, getattr(self.model_, name))
        used = zip(self.kernels_.names, self.mix_.tolist(), strict=True)
        self.chosen_["weights"] = {name: round(weight, 4) for name, weight in used}
        if self.parts != "own":
            self.chosen_["shares of parts"] = self.model_.part_shares_.mean(axis=0).round(4).tolist()

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        gram = self.kernels_.mix(rows, self.rows_, self.mix_)
        return np.asarray(self.model_.decision_function(gram[:, :, np.newaxis]))

    def _model(self, C: float, y: np.ndarray) -> Any:
        options: dict[str, Any] = {"loss": "squared", "class_weight": "balanced", "C": C, "tol": self.tol}
        if self.parts == "own":
            return AverageClassifier("precomputed", **options)
        options["couplings"] = {"all": "common", "similar": label_correlation(y)}
        if self.parts == "learned":
            return MKMTRLClassifier("precomputed", **options)
        return MultiTaskKernelClassifier("precomputed", penalty=equal_parts, **options)

    def _weights(self, rows: np.ndarray, y: np.ndarray, kept: np.ndarray) -> np.ndarray:
        names = self.kernels_.names
        if self.weights == "even":
            return np.full(len(names), 1.0 / len(names))
        if self.weights != "learned":
            return np.array([float(name == self.weights) for name in names])
        some = np.random.default_rng(0).permutation(kept)[:MIX_ROWS]
        most = np.argsort(-np.isfinite(y[some]).sum(axis=0), kind="stable")[:MIX_ASSAYS]
        part = y[np.ix_(some, most)]
        part = part[:, [len(set(column[np.isfinite(column)].tolist())) == 2 for column in part.T]]
        model = self._model_of_mix().fit(self.kernels_.stack(rows[some], rows[some]), part)
        found = model.kernel_weights_.sum(axis=0) + model.coupling_weights_.sum(axis=0)
        return found / found.sum()

    def _model_of_mix(self) -> Any:
        options = {"loss": "squared", "class_weight": "balanced", "C": self.grid[len(self.grid) // 2], "tol": self.tol}
        return MKMTRLClassifier("precomputed", couplings="common", **options)
