"""Models of drug response: tasks are drugs, rows are cell lines. Parameters are chosen on training entries alone."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from kernelkin import AverageRegressor, IMKLRegressor, MKMTRLRegressor

from .drugs_data import CELL_LINES, DRUGS, MEASUREMENTS, load
from .likeness import profile_kernel

EVERY = tuple(MEASUREMENTS)


class KernelModel(RegressorMixin, BaseEstimator):
    """A model of this library on the kernels of the data set.

    Parameters
    ----------
    model : {"AVG", "IMKL", "MK-MTRL"}
    measurements : kinds of measurements of cell lines whose kernels are used; none: cell lines are not alike at all.
    widths : {"all", "mean"}
        Whether the kernels of a measurement, which differ in their width, are used as they are, or their mean.
    common : whether drugs share a part.
    targets : whether drugs share as far as their responses are alike.
    profiles : whether there is a kernel between cell lines by their responses to the drugs of training.
    structure : {"all", "mean", None}
        Kernels between drugs, each as a part of its own, or their mean as one.
    C, sharing, tol : as for the library's models.
    """

    def __init__(
        self,
        model="MK-MTRL",
        measurements=EVERY,
        widths="all",
        common=False,
        targets=False,
        profiles=False,
        structure=None,
        C=1.0,
        sharing=1.0,
        tol=1e-3,
    ):
        self.model = model
        self.measurements = measurements
        self.widths = widths
        self.common = common
        self.targets = targets
        self.profiles = profiles
        self.structure = structure
        self.C = C
        self.sharing = sharing
        self.tol = tol

    def fit(self, cells: np.ndarray, y: np.ndarray) -> Self:
        """cells (n,) numbers of cell lines; y (n, drugs), NaN where unknown: drugs without any response are new."""
        known = np.isfinite(y).any(axis=0)
        self.cells_, self.trained_, self.new_ = cells, np.flatnonzero(known), np.flatnonzero(~known)
        self.profile_kernel_ = profile_kernel(y.T) if self.profiles else None
        self.model_ = self._model(y[:, known]).fit(self._grams(cells), y[:, known])
        for name in ("duality_gap_", "objective_", "effective_rank_"):
            setattr(self, name, getattr(self.model_, name))
        return self

    def predict(self, cells: np.ndarray) -> np.ndarray:
        """Cell lines (q,) -> responses (q, drugs)."""
        grams, m = self._grams(cells), len(self.new_)
        out = np.empty((len(cells), len(self.trained_) + m))
        out[:, self.trained_] = self.model_.predict(grams)
        if m:
            out[:, self.new_] = self._predict_new(grams)
        return out

    def _predict_new(self, grams: np.ndarray) -> np.ndarray:
        """(q, n, K) -> responses (q, new drugs): what they share with others, by structure, and a level."""
        shared = self.model_.predict(grams, split=True).shared
        out = np.zeros((len(grams), len(self.new_)))
        if "common" in shared:
            out += shared["common"].sum(axis=2)[:, :1]
        known, new = self._structure(self.trained_), self._structure(self.new_)
        for name, kernel in known.items():
            # The part of a task is linear in its row of the kernel.
            out += shared[name].sum(axis=2) @ np.linalg.pinv(kernel, rcond=1e-12, hermitian=True) @ new[name].T
        levels = self.model_.intercept_
        if not known:
            return out + levels.mean()
        among, between = (np.mean(list(each.values()), axis=0) for each in (known, new))
        return out + level_weights(among, between, levels) @ levels

    def _model(self, y: np.ndarray) -> Any:
        options = {"kernels": "precomputed", "C": self.C, "tol": self.tol}
        if self.model != "MK-MTRL":
            return {"AVG": AverageRegressor, "IMKL": IMKLRegressor}[self.model](**options)
        couplings: dict[str, Any] = {"common": "common"} if self.common else {}
        if self.targets:
            couplings["targets"] = profile_kernel(y)
        couplings |= self._structure(self.trained_)
        return MKMTRLRegressor(**options, couplings=couplings or None, sharing=self.sharing)

    def _structure(self, drugs: np.ndarray) -> dict[str, np.ndarray]:
        """Kernels (drugs, drugs of training) of unit diagonal, by name."""
        if self.structure is None:
            return {}
        kernels = dict(zip(load().drug_kernel_names, load().drug_kernels, strict=True))
        if self.structure == "mean":
            kernels = {"structure": np.mean(list(kernels.values()), axis=0)}
        roots = {name: np.sqrt(np.diag(kernel)) for name, kernel in kernels.items()}
        return {
            name: (kernel / np.outer(roots[name], roots[name]))[np.ix_(drugs, self.trained_)]
            for name, kernel in kernels.items()
        }

    def _grams(self, cells: np.ndarray) -> np.ndarray:
        """(q, n, K) kernels between cell lines and those of training."""
        data = load()
        kinds = np.array([name.split("_")[0] for name in data.cell_kernel_names])
        if self.widths == "mean":
            kernels = [data.cell_kernels[kinds == kind].mean(axis=0) for kind in self.measurements]
        else:
            kernels = list(data.cell_kernels[np.isin(kinds, self.measurements)])
        stack = [kernel[cells[:, np.newaxis], self.cells_] for kernel in kernels]
        same = np.equal.outer(cells, self.cells_).astype(float)
        if self.profile_kernel_ is not None:
            # A new cell line has no responses, and so is like no other.
            stack.append(same @ self.profile_kernel_)
        return np.stack(stack or [same], axis=2)


def level_weights(known: np.ndarray, new: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Weights (q, T) that predict the levels of new drugs from those (T,) of others.

    Kernel ridge regression around the mean, on kernel values (T, T) among known drugs and (q, T). The ridge, or the
    mean alone, is that of the least leave-one-out error.
    """
    T, centred = len(known), levels - levels.mean()
    # A left-out drug by the mean of the others.
    best, error = np.zeros((len(new), T)), float(np.sum((centred * T / max(T - 1, 1)) ** 2))
    for ridge in np.logspace(-2, 2, 9):
        inverted = np.linalg.inv(known + ridge * np.eye(T))
        left_out = float(np.sum((inverted @ centred / np.diag(inverted)) ** 2))
        if left_out < error:
            best, error = new @ inverted, left_out
    return (1.0 - best.sum(axis=1, keepdims=True)) / T + best


class Chosen(RegressorMixin, BaseEstimator):
    """A model with the parameters of the least squared error on part of the training entries.

    Parameters are tried one after the other, the others at the best value so far, or at their first one.

    Parameters
    ----------
    model : the model to fit.
    grid : dict from parameters to values.
    held_out : the setting: entries, cell lines or drugs are held out for the choice, as they are for the test.
    chooser : a model that is tried in its place, where that is faster.
    cv : the training entries are dealt to so many parts.
    tries : how many of these are held out in turn.
    random_state : seed of the parts.
    """

    def __init__(self, model, grid, held_out, chooser=None, cv=10, tries=1, random_state=0):
        self.model = model
        self.grid = grid
        self.held_out = held_out
        self.chooser = chooser
        self.cv = cv
        self.tries = tries
        self.random_state = random_state

    def fit(self, cells: np.ndarray, y: np.ndarray) -> Self:
        self.chosen_ = self._choose(cells, y)
        self.best_ = clone(self.model).set_params(**self.chosen_).fit(cells, y)
        for name in ("duality_gap_", "objective_", "effective_rank_"):
            if hasattr(self.best_, name):
                setattr(self, name, getattr(self.best_, name))
        return self

    def predict(self, cells: np.ndarray) -> np.ndarray:
        return self.best_.predict(cells)

    def _choose(self, cells: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        # Ours without one of its parts has the parameters of the whole: the choice is made once.
        tried = self.model if self.chooser is None else self.chooser
        key = repr((tried, self.grid, self.held_out, self.cv, self.tries, self.random_state)), y.tobytes()
        if key not in _CHOICES:
            _CHOICES[key] = self._search(tried, cells, y)
        return dict(_CHOICES[key])

    def _search(self, tried: Any, cells: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        parts = deal(y, self.held_out, self.cv, self.random_state)
        best: dict[str, Any] = {name: values[0] for name, values in self.grid.items()}
        errors: dict[str, float] = {}
        for name, values in self.grid.items():
            found = []
            for value in values:
                params = {**best, name: value}
                if repr(params) not in errors:
                    masks = (parts == part for part in range(self.tries))
                    errors[repr(params)] = sum(held_out_error(tried, params, cells, y, held) for held in masks)
                found.append(errors[repr(params)])
            best[name] = values[int(np.argmin(found))]
        return best


# What was chosen, by the search and the training entries.
_CHOICES: dict[tuple[str, bytes], dict[str, Any]] = {}


def held_out_error(model: Any, params: dict[str, Any], cells: np.ndarray, y: np.ndarray, held: np.ndarray) -> float:
    """The squared error at the known entries that `held` (n, drugs) marks, of a model that has not seen these."""
    kept = ~held.all(axis=1)
    fitted = clone(model).set_params(**params).fit(cells[kept], np.where(held, np.nan, y)[kept])
    asked = held & np.isfinite(y)
    return float(((fitted.predict(cells) - y)[asked] ** 2).sum())


def deal(y: np.ndarray, setting: str, n_parts: int, seed: int) -> np.ndarray:
    """The part (n, drugs) of each known entry, cell line, or drug that has entries; -1 for entries that have none."""
    rng = np.random.default_rng([seed, 5])
    known, part = np.isfinite(y), np.full(y.shape, -1)
    if setting == CELL_LINES:
        part[:] = (rng.permutation(len(y)) % n_parts)[:, np.newaxis]
    elif setting == DRUGS:
        drugs = np.flatnonzero(known.any(axis=0))
        part[:, drugs] = rng.permutation(len(drugs)) % n_parts
    else:
        part[known] = rng.permutation(int(known.sum())) % n_parts
    return part
