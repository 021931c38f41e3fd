"""Functions of all tasks on one kernel: MTFL (Argyriou, Evgeniou and Pontil) and MTRL (Zhang and Yeung).

Both penalise a spectral norm of all functions together. With `l1 = 0` (MTFL) tasks share a few features; with `l1 = 1`
(MTRL) a task covariance is learned, and each function also has a penalty of its own.
"""

from __future__ import annotations

from sklearn.utils._param_validation import StrOptions

from ...parameters import PARAMETERS, POOLED_KERNELS, POSITIVE, Parameter, describe
from ..fitting.pooled import PooledFit
from ..penalties.norms import SpectralNorm
from .base import PaperClassifier, PaperRegressor
from .machines import make_fit

_SOLVER = PARAMETERS["solver"]._replace(
    type='{"joint", "alternating"}', constraint=[StrOptions({"joint", "alternating"})]
)
_MU = Parameter("float", "Strength of the relationship term, relative to the norms of functions.", POSITIVE, 1.0)
_PARAMETERS = "kernels * C targets normalize task_column solver tol max_iter n_jobs verbose callback"
_WITH_MU = _PARAMETERS.replace("C", "C mu")


@describe(parameters=_PARAMETERS, kernels=POOLED_KERNELS, solver=_SOLVER)
class MTFLClassifier(PaperClassifier):
    """MTFL: multi-task feature learning, functions of all tasks based on a few shared features.

    It minimises ``sum_t loss_t(w_t) + 1/2 |W|_*^2``, with the squared trace norm of the functions W = (w_t) of all
    tasks. The problem is convex, and `duality_gap_` is certified. `task_relationship_` is ``(W'W)^(1/2)`` scaled to
    trace one, and `effective_rank_` is the effective number of shared features.

    Examples
    --------
    >>> from kernelkin.paper import MTFLClassifier
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, regression=False, random_state=0)
    >>> model = MTFLClassifier().fit(data.data, data.target, tasks=data.tasks)
    >>> model.task_relationship_.shape
    (3, 3)
    """

    def specification(self) -> PooledFit:
        return make_fit(PooledFit, self, norm=SpectralNorm(l1=0.0, l2=1.0))


@describe(parameters=_PARAMETERS, kernels=POOLED_KERNELS, solver=_SOLVER)
class MTFLRegressor(PaperRegressor):
    """MTFL for real targets: functions of all tasks based on a few shared features; see `MTFLClassifier`."""

    specification = MTFLClassifier.specification


@describe(parameters=_WITH_MU, kernels=POOLED_KERNELS, solver=_SOLVER, mu=_MU)
class MTRLClassifier(PaperClassifier):
    """MTRL: multi-task relationship learning, with a task covariance in the feature space of one kernel.

    It minimises ``sum_t loss_t(w_t) + 1/2 |W|_F^2 + (mu/2) tr(W inv(Omega) W')`` over W and over Omega with trace one.
    The problem is convex; `duality_gap_` is certified. `effective_rank_` is the effective number of shared features.

    Examples
    --------
    >>> from kernelkin.paper import MTRLClassifier
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, regression=False, random_state=0)
    >>> model = MTRLClassifier().fit(data.data, data.target, tasks=data.tasks)
    >>> model.task_relationship_.shape
    (3, 3)
    """

    def specification(self) -> PooledFit:
        return make_fit(PooledFit, self, norm=SpectralNorm(l1=1.0, l2=self.mu))


@describe(parameters=_WITH_MU, kernels=POOLED_KERNELS, solver=_SOLVER, mu=_MU)
class MTRLRegressor(PaperRegressor):
    """MTRL for real targets, with a task covariance in the feature space of one kernel; see `MTRLClassifier`."""

    specification = MTRLClassifier.specification
