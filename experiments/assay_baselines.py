"""What the kernel models of assays are compared with: a model for each assay on fingerprints."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

from .assay_data import RANDOM, load
from .assay_kernels import normal_scores, tanimoto
from .assay_models import AssayModel, calibrate


class ActiveShare(ClassifierMixin, BaseEstimator):
    """The share of actives of each assay in training: no skill. NaN for assays that are not asked for."""

    def __init__(self, data="tox21", assays=None):
        self.data = data
        self.assays = assays

    def fit(self, rows: np.ndarray, y: np.ndarray) -> Self:
        chosen = some_assays(y.shape[1], self.assays)
        self.share_ = np.full(y.shape[1], np.nan)
        self.share_[chosen] = np.nanmean(y[:, chosen], axis=0)
        return self

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        return np.tile(self.share_, (len(rows), 1))

    predict_proba = decision_function


class SingleAssays(AssayModel):
    """A model for each assay; the parameter is the same for all of them.

    Subclasses have the parameter `assays`, the number of assays that are predicted (None: all), since a fit for each
    takes long, and fit one assay in `one`: positions of training molecules, their labels and a parameter -> a function
    from numbers of molecules to values. Values of other assays are NaN.
    """

    assays: int | None

    def train(self, kept: np.ndarray, y: np.ndarray, parameter: float) -> Any:
        fitted = self._fit_each(kept, y, parameter)
        return lambda held: _side_by_side(fitted, self.rows_[held], y.shape[1])

    def finish(self, rows: np.ndarray, y: np.ndarray, parameter: float) -> None:
        self.functions_ = self._fit_each(np.arange(len(rows)), y, parameter)
        self.n_assays_ = y.shape[1]

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        return _side_by_side(self.functions_, rows, self.n_assays_)

    def _fit_each(self, kept: np.ndarray, y: np.ndarray, parameter: float) -> dict[int, Any]:
        return {t: self._one(kept, y[:, t], parameter) for t in some_assays(y.shape[1], self.assays)}

    def _one(self, kept: np.ndarray, y: np.ndarray, parameter: float) -> Any:
        known = np.isfinite(y)
        labels = y[known].astype(int)
        if len(set(labels.tolist())) < 2:
            return lambda rows: np.full(len(rows), 0.0)
        return self.one(kept[known], labels, parameter)

    def one(self, kept: np.ndarray, y: np.ndarray, parameter: float) -> Any:
        raise NotImplementedError


def some_assays(n_assays: int, count: int | None) -> list[int]:
    """Numbers of so many assays, spread evenly over all of them; None: all."""
    if count is None:
        return list(range(n_assays))
    return np.unique(np.linspace(0, n_assays - 1, count).astype(int)).tolist()


def _side_by_side(functions: dict[int, Any], rows: np.ndarray, n_assays: int) -> np.ndarray:
    out = np.full((len(rows), n_assays), np.nan)
    for t, function in functions.items():
        out[:, t] = function(rows)
    return out


class FingerprintSVM(SingleAssays):
    """A support vector machine on the Tanimoto kernel of one fingerprint; the parameter is C."""

    def __init__(self, data="tox21", kind=RANDOM, grid=(0.3, 1.0, 3.0), assays=None, fingerprint="morgan2"):
        self.data = data
        self.kind = kind
        self.grid = grid
        self.assays = assays
        self.fingerprint = fingerprint

    def prepare(self, rows: np.ndarray, y: np.ndarray, kept: np.ndarray) -> None:
        packed = load(self.data).packed[self.fingerprint]
        self._gram = tanimoto(packed[rows], packed[rows])

    def finish(self, rows: np.ndarray, y: np.ndarray, parameter: float) -> None:
        super().finish(rows, y, parameter)
        del self._gram

    def one(self, kept: np.ndarray, y: np.ndarray, parameter: float) -> Any:
        machine = SVC(C=parameter, kernel="precomputed", class_weight="balanced", cache_size=500)
        machine.fit(self._gram[np.ix_(kept, kept)], y)
        packed, known = load(self.data).packed[self.fingerprint], self.rows_[kept]
        support, dual = known[machine.support_], machine.dual_coef_[0]
        intercept = float(machine.intercept_[0])
        return lambda rows: tanimoto(packed[rows], packed[support]) @ dual + intercept


class Trees(SingleAssays):
    """Trees on bits of Morgan's fingerprint, or on these, the MACCS keys and all descriptors.

    Parameters
    ----------
    data, kind : as for all models.
    grid : numbers of trees, of which boosting chooses; a forest has the last.
    assays : as for `SingleAssays`.
    method : {"forest", "boosting"}
    features : {"morgan2", "all"}
    """

    def __init__(self, data="tox21", kind=RANDOM, grid=(50, 150), assays=None, method="forest", features="morgan2"):
        self.data = data
        self.kind = kind
        self.grid = grid
        self.assays = assays
        self.method = method
        self.features = features

    def fit(self, rows: np.ndarray, y: np.ndarray) -> Self:
        if self.method == "boosting":
            return super().fit(rows, y)
        # Trees of a forest have not seen all molecules: nothing needs to be held out for the calibration.
        self.rows_, self.chosen_ = rows, {"parameter": float(self.grid[-1])}
        self.prepare(rows, y, rows)
        self._left_out = np.full(y.shape, np.nan)
        self.finish(rows, y, self.grid[-1])
        self.link_, self.shifts_ = calibrate(y, self._left_out)
        return self

    def prepare(self, rows: np.ndarray, y: np.ndarray, kept: np.ndarray) -> None:
        data, every = load(self.data), np.arange(len(load(self.data).labels))
        parts = [data.bits("morgan2", every).astype(np.float32)]
        if self.features == "all":
            parts += [data.bits("maccs", every).astype(np.float32), normal_scores(data.descriptors, rows)]
        self._table = np.hstack(parts)

    def _fit_each(self, kept: np.ndarray, y: np.ndarray, parameter: float) -> dict[int, Any]:
        if self.method == "boosting":
            return super()._fit_each(kept, y, parameter)
        fitted = {}
        for t in some_assays(y.shape[1], self.assays):
            known = np.flatnonzero(np.isfinite(y[:, t]))
            model = self._model(int(parameter)).fit(self._table[self.rows_[kept[known]]], y[known, t].astype(int))
            self._left_out[known, t] = _log_odds(model.oob_decision_function_[:, 1])
            fitted[t] = partial(self._values, model)
        return fitted

    def one(self, kept: np.ndarray, y: np.ndarray, parameter: float) -> Any:
        return partial(self._values, self._model(int(parameter)).fit(self._table[self.rows_[kept]], y))

    def _values(self, model: Any, rows: np.ndarray) -> np.ndarray:
        return _log_odds(model.predict_proba(self._table[rows])[:, 1])

    def _model(self, size: int) -> Any:
        if self.method == "forest":
            return RandomForestClassifier(size, oob_score=True, random_state=0, n_jobs=1)
        from lightgbm import LGBMClassifier

        return LGBMClassifier(
            n_estimators=size, learning_rate=0.1, subsample=0.8, subsample_freq=1, colsample_bytree=0.3,
            random_state=0, n_jobs=1, verbose=-1,
        )  # fmt: skip


def _log_odds(p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-3, 1 - 1e-3)
    return np.asarray(np.log(p / (1 - p)))
