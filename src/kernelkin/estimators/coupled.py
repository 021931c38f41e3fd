"""What estimators share whose tasks may share parts of their functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from ..couplings import COMMON, Coupling, read_couplings
from ..data import Queries, TaskData
from .base import MultiKernelEstimator, squeeze
from .kinds import MultiKernelClassifier


@dataclass(eq=False, repr=False, kw_only=True)
class CoupledEstimator(MultiKernelEstimator):
    """An estimator with couplings: it can split a prediction by them, and predict tasks it has never seen."""

    couplings: Any = None

    _coupled_constraints: ClassVar[dict[str, Any]] = {"couplings": "no_validation"}

    def _couplings(self, data: TaskData) -> tuple[Coupling, ...]:
        return read_couplings(self.couplings, data)

    def _store_couplings(self, couplings: Sequence[Coupling], weights: np.ndarray) -> None:
        """Keep the couplings, and the kernel weights (K, n_couplings) of their parts."""
        self.couplings_ = tuple(couplings)
        self.coupling_weights_ = weights.T.copy()

    def predict(
        self, X: Any, tasks: Any = None, split: bool = False, unknown_tasks: str = "error"
    ) -> np.ndarray | Bunch:
        """Predicted targets or class labels, (q,) or on wide data (q, T).

        With ``split=True``, a Bunch: `prediction`; `parts` (q, K), or (q, T, K) on wide data, what each kernel adds to
        the value behind the prediction (one axis more where a task has more than two classes); `own`, and `shared` by
        the name of each coupling, the same for the tasks' own parts and the parts they share; `intercept`; `kernels`,
        their names. Parts and intercept sum to the value of a regressor, or of the `decision_function`.

        With ``unknown_tasks="common"``, tasks that were not in training are predicted by what all tasks have in common
        (the coupling "common") and the mean of the tasks' intercepts.
        """
        queries = self._read_queries(X, tasks, self._allow(unknown_tasks))
        return self._split(queries) if split else self._predict(queries)

    def _allow(self, unknown_tasks: str) -> bool:
        """Whether tasks never seen may be predicted."""
        if unknown_tasks not in ("error", COMMON):
            raise ValueError(f"unknown_tasks must be 'error' or 'common', got {unknown_tasks!r}")
        if unknown_tasks == COMMON:
            self._check_common()
        return unknown_tasks == COMMON

    def _check_common(self) -> None:
        check_is_fitted(self)
        if not any(coupling.is_common for coupling in self.couplings_):
            raise ValueError(
                "unknown tasks are predicted by what all tasks have in common: fit with couplings='common'"
            )

    def _split(self, queries: Queries) -> Bunch:
        bunch = super()._split(queries)
        if self.couplings_:
            parts = [
                squeeze(self.functions_.parts(queries.X, queries.codes, only=j))
                for j in range(1 + len(self.couplings_))
            ]
            bunch.own = parts[0]
            bunch.shared = {coupling.name: part for coupling, part in zip(self.couplings_, parts[1:], strict=True)}
        return bunch


@dataclass(eq=False, repr=False, kw_only=True)
class CoupledClassifier(CoupledEstimator, MultiKernelClassifier):
    """A classifier with couplings."""

    def decision_function(self, X: Any, tasks: Any = None, unknown_tasks: str = "error") -> np.ndarray:
        """How far each row is on the side of each class.

        Returns
        -------
        values : (q,) where all tasks have the same two classes, positive for the second one; otherwise (q, n_classes)
            in the order of `classes_`, -inf for classes that a row's task does not have. On wide data (q, T) where
            every task has two classes, else (q, T, n_classes). ``unknown_tasks="common"`` as for `predict`.
        """
        return self._decide(self._read_queries(X, tasks, self._allow(unknown_tasks)))
