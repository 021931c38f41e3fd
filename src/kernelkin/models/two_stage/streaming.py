"""The two-stage estimators on a stream: weights from rows as they come, machines when they are first needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context, is_classifier

from ...data import Form, Queries, listing, read_piece
from ...grams.rows import RowKernels
from ...kernels import resolve_kernels
from ...memory import check_memory
from ...parallel import Workers
from .shell import TwoStageShell
from .stream import Stream

# What machines say of themselves, and no longer holds when more rows have come.
_OF_MACHINES = (
    "functions_",
    "dual_coef_",
    "intercept_",
    "objective_",
    "duality_gap_",
    "task_classes_",
    "nystroem_tasks_",
)


@dataclass(eq=False, repr=False, kw_only=True)
class TwoStageEstimator(TwoStageShell):
    """A two-stage estimator that can also go on with the next rows of a stream."""

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, tasks: Any = None, classes: Any = None) -> Self:
        """Go on with the next rows of a stream; the machines are fitted when they are first needed.

        Every row plays one round, with a partner drawn from the rows of its task in a reservoir of `reservoir` rows,
        which are also the rows that its machine is fitted on. The first row of a task has no partner: it is skipped,
        and counted in `n_skipped_`. The kernels are fitted on the first 1000 rows of the stream, or by `fit` before. A
        stream leads to the same state in one piece or in many.

        A task that was not seen before joins with weights of zero and the identity's row of the relationship, until it
        has learned something from rows of its own to know its relatives by.

        Parameters
        ----------
        X, y, tasks
            As for `fit`; `y` of the same form in every call.
        classes : array, optional
            All classes there will be; a classifier then refuses others.
        """
        if self._precomputed:
            raise ValueError("a stream has no precomputed kernels: every new row would need its values at all others")
        if self.normalize == "center":
            raise ValueError("normalize='center' needs all rows of a task at once; a stream cannot give them")
        first = not hasattr(self, "data_form_")
        piece = read_piece(self, X, y, tasks, classification=is_classifier(self), first=first)
        if not first and piece.form != self.data_form_:
            raise ValueError(f"this model has seen {self.data_form_} data, and these are {piece.form}")
        if classes is not None and is_classifier(self):
            _check_classes(np.concatenate(piece.y), classes)
        if first or self._stream is None:
            self._stream = self._open_stream(first)
        with Workers(1):
            self._stream.feed(piece)
        self._store_stream(piece.form)
        return self

    def _open_stream(self, first: bool) -> Stream:
        rng = self._start() if first else self._fitted[-1]
        stream = Stream(
            resolve_kernels(self.kernels),
            self._online(),
            self.normalize,
            self.reservoir,
            rng,
            center=self.center_pairs,
            classification=is_classifier(self),
            verbose=self.verbose,
        )
        if not first:
            data, run, mean, _ = self._fitted
            kernels: Any = self.kernels_
            stream.follow(data, kernels, replace(run, solver=self._online(), n_rounds=None), mean)
            self._fitted = None
        return stream

    def _store_stream(self, form: Form) -> None:
        """What the stream says of kernels and tasks so far; the machines it had no longer hold."""
        stream = self._stream.settled()
        reservoirs = stream.reservoirs
        self._settled = stream
        values = RowKernels.of(reservoirs.X, list(reservoirs.kernels), self.normalize)
        self._store_weights(stream.tasks.labels, form, values, stream.run)
        self.n_skipped_ = reservoirs.n_skipped
        if stream.classes is not None:
            self.classes_ = np.sort(stream.classes.labels)
        for name in _OF_MACHINES:
            self.__dict__.pop(name, None)

    def _read_queries(self, X: Any, tasks: Any, allow_unknown: bool = False) -> Queries:
        queries = super()._read_queries(X, tasks, allow_unknown)
        if not hasattr(self, "functions_"):
            reservoirs = self._settled.reservoirs
            classes = None if self._settled.classes is None else self._settled.classes.labels
            data = reservoirs.data(self.tasks_, classes)
            values = RowKernels.of(data.X, list(reservoirs.kernels), self.normalize)
            check_memory(self._machine_need(data, values))
            self._store_machines(data, values)
        asked = range(len(self.tasks_)) if queries.codes is None else np.unique(queries.codes).tolist()
        for t in asked:
            if t in self._faults:
                raise ValueError(self._faults[t])
        return queries


def _check_classes(y: np.ndarray, classes: Any) -> None:
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"y has classes {listing(unknown)}, which are not among classes={listing(list(classes))}")
