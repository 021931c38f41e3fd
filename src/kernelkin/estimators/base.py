"""What every multi-kernel, multi-task estimator shares: its kernels, its machines, and how it predicts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import UNUSED

from ..data import Queries, TaskData
from ..kernels import FittedKernel, fit_kernels, resolve_kernels
from ..learners import Learner, Machine
from .shell import MultiTaskEstimator


@dataclass(eq=False, repr=False)
class MultiKernelEstimator(MultiTaskEstimator):
    """Kernel machines for many tasks, with weights on several kernels.

    Parameters are the fields of these dataclasses: every estimator is one, and adds its own. A subclass says which
    machine each task is (`_learner`, `_machines`).
    """

    kernels: Any = None
    _: KW_ONLY
    C: float = 1.0
    normalize: str | None = "trace"
    task_column: Any = None
    tol: float = 1e-3
    n_jobs: int | None = None

    __metadata_request__predict: ClassVar = {"split": UNUSED, "unknown_tasks": UNUSED}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernels": "no_validation",
        "C": [Interval(Real, 0, None, closed="neither")],
        "normalize": [StrOptions({"trace", "cosine", "center"}), None],
        "task_column": "no_validation",
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    @abstractmethod
    def _learner(self) -> Learner:
        """The kernel machine of each task."""

    @abstractmethod
    def _machines(self, data: TaskData) -> list[Machine]:
        """The coded targets and costs of each task."""

    def _fit_kernels(self, data: TaskData) -> list[FittedKernel] | None:
        if self._precomputed:
            return None
        return fit_kernels(resolve_kernels(self.kernels), data.X, data.feature_names, data.sample_weight)

    def _count_kernels(self, data: TaskData) -> int:
        """How many there will be, without evaluating or fitting any."""
        if self._precomputed:
            return data.X.shape[2]
        kernels = resolve_kernels(self.kernels)
        return sum(len(kernel.targets(data.X.shape[1], data.feature_names)) for kernel in kernels)

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.three_d_array = self._precomputed
        return tags

    def predict(self, X: Any, tasks: Any = None, split: bool = False) -> np.ndarray | Bunch:
        """Predicted targets or class labels, (q,) or on wide data (q, T).

        With ``split=True``, a Bunch: `prediction`; `parts` (q, K), or (q, T, K) on wide data, what each kernel adds to
        the value behind the prediction (one axis more where a task has more than two classes); `intercept`; `kernels`,
        their names. Parts and intercept sum to the value of a regressor, or of the `decision_function`.

        Raises
        ------
        ValueError, TypeError
            As `fit` does of X and tasks; where the columns of X are not those of `fit`; and by name where a task is
            unknown or not given.
        """
        queries = self._read_queries(X, tasks)
        return self._split(queries) if split else self._predict(queries)

    def _split(self, queries: Queries) -> Bunch:
        """A prediction with what each kernel and the intercept contribute to the values behind it."""
        return Bunch(
            prediction=self._predict(queries),
            parts=squeeze(self.functions_.parts(queries.X, queries.codes)),
            intercept=squeeze(self.functions_.intercepts(queries.X, queries.codes)),
            kernels=self.kernel_names_,
        )


def squeeze(values: np.ndarray) -> np.ndarray:
    """Without the axis of outputs, where there is one output."""
    return values[..., 0] if values.shape[-1] == 1 else values
