"""Leave-one-out errors of all tasks at mixes of kernels and strengths, in blocks of columns that fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..grams.operator import Arrays, SharedOperator, in_blocks
from .components import Scoring, component_weights
from .spectrum import MixSpectrum
from .targets import Errors


@dataclass(frozen=True)
class Reference:
    """A mix and a strength that others are compared with."""

    spectrum: MixSpectrum
    strength: float


@dataclass(frozen=True)
class Targets:
    """The targets of all tasks on shared rows, and the strengths to try.

    Attributes
    ----------
    operator : the kernels.
    Y : (n, T), centred where there is an intercept.
    has_intercept : whether there is.
    strengths : (c,).
    """

    operator: SharedOperator
    Y: np.ndarray
    has_intercept: bool
    strengths: np.ndarray

    @property
    def arrays(self) -> Arrays:
        return self.operator.arrays

    @property
    def n_labels(self) -> int:
        """Labels of each task."""
        return len(self.Y)

    @property
    def mask(self) -> None:
        """No labels are missing; see `MaskedTargets`."""
        return None

    @cached_property
    def variance(self) -> np.ndarray:
        """(T,) mean squares of the targets."""
        return np.maximum(np.square(self.Y).mean(axis=0), np.finfo(float).tiny)

    def take(self, rows: np.ndarray) -> tuple[Targets, np.ndarray]:
        """The targets at some rows, and the means (T,) that were taken off."""
        Y = self.Y[rows]
        means = Y.mean(axis=0) if self.has_intercept else np.zeros(Y.shape[1])
        return replace(self, operator=self.operator.take(rows), Y=Y - means), means

    def decompose(self, mix: np.ndarray) -> MixSpectrum:
        return MixSpectrum.of(self.operator, mix, self.has_intercept)

    def losses(self, spectrum: MixSpectrum) -> np.ndarray:
        """(c, T) mean squares of the leave-one-out errors."""

        def work(Y: Any) -> np.ndarray:
            turned = spectrum.turn(Y)
            return self._table([(spectrum.left_out(turned, c) ** 2).mean(0) for c in self.strengths.tolist()])

        return self._in_blocks(work)

    def reference(self, spectrum: MixSpectrum, strength: float) -> Reference:
        """A mix and strength for others to be compared with."""
        return Reference(spectrum, strength)

    def errors(self, spectrum: MixSpectrum, reference: Reference) -> Errors:
        """The errors at a mix, beside those of the reference."""

        def work(Y: Any) -> np.ndarray:
            known, turned = reference.spectrum, spectrum.turn(Y)
            base = known.left_out(known.turn(Y), reference.strength) ** 2
            rows = []
            for c in self.strengths.tolist():
                loss = spectrum.left_out(turned, c) ** 2
                gain = (base - loss).mean(0)
                rows += [loss.mean(0), gain, ((base - loss - gain) ** 2).mean(0)]
            return self._table(rows)

        table = self._in_blocks(work)
        return Errors(table[0::3], table[1::3], np.sqrt(table[2::3] / len(self.Y)))

    def own_weights(self, spectrum: MixSpectrum, strength: float, members: np.ndarray) -> np.ndarray:
        """(K, members) kernel weights of some tasks, by a step from a mix and strength."""
        scoring = Scoring.at(self.operator, spectrum, strength)
        moments = self._in_blocks(lambda Y: scoring.moments(spectrum.turn(Y)), members)
        return component_weights(scoring.information, moments, self.n_labels - (1 if self.has_intercept else 0))

    def _table(self, rows: list[Any]) -> np.ndarray:
        return self.arrays.numpy(self.arrays.xp.stack(rows))

    def _in_blocks(self, work: Callable[[Any], np.ndarray], members: np.ndarray | None = None) -> np.ndarray:
        """What `work` makes of columns of Y, side by side; fewer columns at one time where memory does not suffice."""
        count = self.Y.shape[1] if members is None else len(members)
        size = self.arrays.columns(self.operator.n_rows, self.operator.n_kernels)
        parts = in_blocks(self.arrays, count, size, lambda where: work(self._columns(where, members)))
        return np.concatenate(parts, axis=1)

    def _columns(self, where: slice, members: np.ndarray | None) -> Any:
        """Some columns of Y, or of those of its members."""
        return self._copy[:, where] if members is None else self._copy[:, self.arrays.array(members[where])]

    @cached_property
    def _copy(self) -> Any:
        """Y where the operator is."""
        return self.arrays.array(self.Y)
