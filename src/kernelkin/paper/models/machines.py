"""Models with kernel weights that are fixed (STL, AVG), learned per task (IMKL) or jointly (MK-MTRL and others).

They differ in the penalty on the weights.
"""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval

from ...data.arrays import listing, named_matrix
from ...kernels.families import NAMED_KERNELS, is_precomputed
from ...parameters import COUNT, COUPLED, KERNEL_MACHINE, PARAMETERS, Parameter, describe
from ..fitting.fit import Fit, Shape
from ..fitting.targets import Classification, Regression
from ..penalties.norms import FixedWeights, LpPenalty, MixedNorm, SharedLpPenalty, SimplexPenalty
from ..penalties.relation import Penalty, RelationPenalty
from ..solvers.descents import StochasticApproximation
from .base import PaperClassifier, PaperRegressor

_KERNEL = Parameter(
    "str, int or None",
    'The kernel to use among `kernels`: its name (or "rbf", "linear", "poly") or position. None: the Gaussian with '
    "the median distance, else the linear kernel, else the first kernel. Precomputed kernels need a position; None is "
    "the first.",
)
_P = Parameter(
    "float in [2, inf]",
    "Exponent of the norm over tasks. 2: tasks may use a kernel to different degrees; larger p: to more similar "
    "degrees.",
    [Interval(Real, 2, np.inf, closed="both")],
    2.0,
)
_PASSES = Parameter(
    "int", "Maximum number of passes of T rounds, which cost as much as solving all machines.", COUNT, 100
)


def make_fit(kind: Any, model: Any, **more: Any) -> Any:
    """Return a specification of a `kind`, such as `Fit`, from the parameters of an estimator and further fields."""
    names = kind.__dataclass_fields__
    given = {name: value for name, value in model.get_params(deep=False).items() if name in names}
    if hasattr(model, "class_weight"):
        given["targets"] = Classification(model.loss, model.class_weight)
    elif hasattr(model, "epsilon"):
        given["targets"] = Regression(model.loss, model.epsilon, model.fit_intercept)
    return kind(**given | more)


def even_weights(shape: Shape) -> FixedWeights:
    return FixedWeights(np.full((shape.n_kernels, shape.n_components), 1.0 / shape.n_kernels))


def one_kernel(shape: Shape, kernel: int | None) -> FixedWeights:
    weights = np.zeros((shape.n_kernels, shape.n_components))
    weights[_position(0 if kernel is None else kernel, shape.n_kernels)] = 1.0
    return FixedWeights(weights)


def relation_penalty(
    shape: Shape, *, prior: Any = None, shrinkage: float = 0.1, min_rank: float = 1.0, evenness: float = 0.0
) -> RelationPenalty:
    """Return the relationship penalty of tasks and couplings; `prior` and `min_rank` are those of the tasks."""
    T, J = len(shape.tasks), len(shape.tasks) + shape.n_couplings
    if min_rank > T:
        raise ValueError(f"min_rank={min_rank:g} is larger than the number of tasks, {T}")
    if prior is not None:
        prior = named_matrix(prior, shape.tasks, "prior")
        # Checks the prior of the tasks alone, so that errors refer to its own shape and values.
        RelationPenalty(T, prior)
        # Couplings are unrelated and have the average strength of a task.
        extended = np.eye(J)
        extended[:T, :T] = prior * (T / np.trace(prior))
        prior = extended if J > T else prior
    return RelationPenalty(J, prior, shrinkage, min_rank, evenness)


# Penalties by name, with default parameters. All but the last are homogeneous of degree two.
NAMED_PENALTIES: dict[str, Any] = {
    "relation": relation_penalty,
    "lp": LpPenalty(),
    "shared": SharedLpPenalty(),
    "mixed": MixedNorm(),
}


def choose_kernel(kernel: Any, names: list[str]) -> int:
    """Return the position of a kernel given by position, by name, or as None: "rbf", else "linear", else the first."""
    if kernel is None:
        wanted = [NAMED_KERNELS[name].name for name in ("rbf", "linear")]
        return next((names.index(name) for name in wanted if name in names), 0)
    if isinstance(kernel, str):
        name = kernel if kernel in names or kernel not in NAMED_KERNELS else NAMED_KERNELS[kernel].name
        if name not in names:
            raise ValueError(f"unknown kernel={kernel!r}; the kernels are {listing(names)}")
        return names.index(name)
    return _position(kernel, len(names))


def _position(kernel: Any, n_kernels: int) -> int:
    if not isinstance(kernel, int | np.integer) or not -n_kernels <= kernel < n_kernels:
        raise ValueError(f"kernel={kernel!r} is not the position of one of the {n_kernels} kernels")
    return int(kernel) % n_kernels


# Parameters of the estimators, in order.
_WORK = "tol n_jobs device"
_FIXED = f"targets normalize task_column {_WORK}"
_SOLVED = "tol max_iter n_jobs device verbose callback"
_WEIGHTS = f"kernels * C mu p parsimony targets normalize task_column solver init {_SOLVED}"
_COUPLED = (
    "kernels * C mu parsimony couplings sharing prior shrinkage min_rank evenness targets "
    f"normalize unknown_tasks task_column solver init {_SOLVED}"
)
_COMPOSED = (
    "kernels * penalty solver C mu parsimony couplings sharing targets normalize unknown_tasks task_column "
    f"init {_SOLVED}"
)
_PENALTY = Parameter(
    '{"relation", "lp", "shared", "mixed"}, penalty or callable',
    "Penalty on the kernel weights B (K, J): a name, a penalty (of `paper.penalties`, or of your own subclass of "
    "`paper.penalties.Penalty`), or a callable that takes a `Shape` (`n_kernels`, `tasks`, `n_couplings`) and "
    "returns a penalty.",
    default="relation",
)
_SOLVER = Parameter(
    "str, solver or None",
    "The name or an instance of a solver in `paper.solvers`, or of your own subclass of `paper.solvers.Solver`. None: "
    "the default solver of the problem.",
    [str, HasMethods("run"), None],
)


@describe(parameters=f"kernels * C kernel {_FIXED}", kernel=_KERNEL)
class STLClassifier(PaperClassifier):
    """STL: single-task learning, one machine for each task on one kernel.

    Examples
    --------
    >>> from kernelkin import STLClassifier
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, regression=False, random_state=0)
    >>> model = STLClassifier(kernel="linear").fit(data.data, data.target, tasks=data.tasks)
    >>> model.kernel_names_.tolist()
    ['linear']
    """

    def specification(self) -> Fit:
        if is_precomputed(self.kernels):
            return make_fit(Fit, self, penalty=partial(one_kernel, kernel=self.kernel))
        chosen = partial(choose_kernel, self.kernel)
        return make_fit(Fit, self, penalty=partial(one_kernel, kernel=None), choose_kernel=chosen)


@describe(parameters=f"kernels * C kernel {_FIXED}", kernel=_KERNEL)
class STLRegressor(PaperRegressor):
    """STL for real targets: one machine for each task on one kernel; see `STLClassifier`."""

    specification = STLClassifier.specification


@describe(parameters=f"kernels * C {_FIXED}")
class AverageClassifier(PaperClassifier):
    """AVG: one kernel machine for each task on the average of the base kernels.

    No kernel weights are learned, and tasks share nothing. This is a strong baseline if all kernels are reasonable.

    Examples
    --------
    >>> from kernelkin import AverageClassifier
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, regression=False, random_state=0)
    >>> model = AverageClassifier().fit(data.data, data.target, tasks=data.tasks)
    >>> model.kernel_weights_[0].round(3)
    array([0.167, 0.167, 0.167, 0.167, 0.167, 0.167])
    """

    def specification(self) -> Fit:
        return make_fit(Fit, self, penalty=even_weights)


@describe(parameters=f"kernels * C {_FIXED}")
class AverageRegressor(PaperRegressor):
    """AVG for real targets: one machine for each task on the average of the kernels; see `AverageClassifier`."""

    specification = AverageClassifier.specification


@describe(parameters=_WEIGHTS)
class IMKLClassifier(PaperClassifier):
    """IMKL: independent multiple kernel learning for each task, with a p-norm penalty on the kernel weights.

    The penalty is ``R(B) = sum_t |b_t|_p^2``. Tasks share nothing. The problem is convex; `duality_gap_` is certified.

    Examples
    --------
    >>> from kernelkin import IMKLClassifier
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, regression=False, random_state=0)
    >>> model = IMKLClassifier(p=1.5).fit(data.data, data.target, tasks=data.tasks)
    >>> model.kernel_weights_.shape
    (3, 6)
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    def specification(self) -> Fit:
        return make_fit(Fit, self, penalty=LpPenalty(self.p), has_path=True)


@describe(parameters=_WEIGHTS)
class IMKLRegressor(PaperRegressor):
    """IMKL for real targets: kernel weights learned separately for each task; see `IMKLClassifier`."""

    specification = IMKLClassifier.specification


@describe(parameters=_WEIGHTS)
class IKLClassifier(PaperClassifier):
    """IKL: input kernel learning, one vector of kernel weights that all tasks share.

    The penalty is ``R(B) = |b|_p^2``; every column of B equals b. The problem is convex; `duality_gap_` is certified.

    Examples
    --------
    >>> from kernelkin.paper import IKLClassifier
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, regression=False, random_state=0)
    >>> model = IKLClassifier(p=1.5).fit(data.data, data.target, tasks=data.tasks)
    >>> bool((model.kernel_weights_ == model.kernel_weights_[0]).all())
    True
    """

    def specification(self) -> Fit:
        return make_fit(Fit, self, penalty=SharedLpPenalty(self.p), has_path=True)


@describe(parameters=_WEIGHTS)
class IKLRegressor(PaperRegressor):
    """IKL for real targets: one vector of kernel weights that all tasks share; see `IKLClassifier`."""

    specification = IKLClassifier.specification


@describe(parameters=f"kernels * C p parsimony targets normalize task_column {_SOLVED}", p=_P)
class MKMTFLClassifier(PaperClassifier):
    """MK-MTFL: all tasks select the same few kernels, with a 1-norm over kernels of p-norms over tasks.

    The problem is convex in the functions, and `duality_gap_` is certified. `kernel_weights_` are
    ``gamma_k / lambda_tk``.

    Examples
    --------
    >>> from kernelkin.paper import MKMTFLClassifier
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, regression=False, random_state=0)
    >>> model = MKMTFLClassifier(p=4).fit(data.data, data.target, tasks=data.tasks)
    >>> model.kernel_weights_.shape
    (3, 6)
    """

    def specification(self) -> Fit:
        return make_fit(Fit, self, penalty=MixedNorm(float(self.p)))


@describe(parameters=f"kernels * C p parsimony targets normalize task_column {_SOLVED}", p=_P)
class MKMTFLRegressor(PaperRegressor):
    """MK-MTFL for real targets: all tasks select the same few kernels; see `MKMTFLClassifier`."""

    specification = MKMTFLClassifier.specification


@describe(
    parameters="kernels * C parsimony targets normalize task_column tol max_iter n_jobs random_state verbose callback",
    tol=PARAMETERS["tol"]._replace(default=1e-2),
    max_iter=_PASSES,
)
class MKLSAClassifier(PaperClassifier):
    """MKL-SA: one vector of kernel weights for all tasks that is best for the worst task.

    It is designed for many tasks: each round solves the machine of one randomly drawn task; harder tasks are drawn
    more often. `objective_` is the value of the worst task's machine.

    Examples
    --------
    >>> from kernelkin.paper import MKLSAClassifier
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, regression=False, random_state=0)
    >>> model = MKLSAClassifier(random_state=0, tol=0.1).fit(data.data, data.target, tasks=data.tasks)
    >>> float(model.kernel_weights_[0].sum().round(6))
    1.0
    """

    def specification(self) -> Fit:
        solver = StochasticApproximation(self.random_state)
        return make_fit(Fit, self, penalty=SimplexPenalty(), worst_task=True, solver=solver)


@describe((*KERNEL_MACHINE, *COUPLED), parameters=_COUPLED)
class MKMTRLClassifier(PaperClassifier):
    """Multi-task multiple kernel relationship learning (MK-MTRL) for classification.

    It learns kernel weights for each task, a task relationship between these weights, and one kernel machine for each
    task. The problem is convex; `duality_gap_` certifies how close the fit is to the optimum.

    Examples
    --------
    >>> from kernelkin import MKMTRLClassifier
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, regression=False, random_state=0)
    >>> model = MKMTRLClassifier().fit(data.data, data.target, tasks=data.tasks)
    >>> model.kernel_weights_.shape
    (3, 6)
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    def specification(self) -> Fit:
        options = {name: getattr(self, name) for name in ("prior", "shrinkage", "min_rank", "evenness")}
        return make_fit(Fit, self, penalty=partial(relation_penalty, **options), has_path=True)


@describe((*KERNEL_MACHINE, *COUPLED), parameters=_COUPLED)
class MKMTRLRegressor(PaperRegressor):
    """Multi-task multiple kernel relationship learning (MK-MTRL) for regression.

    It learns kernel weights for each task, a task relationship between these weights, and one kernel machine for each
    task. The problem is convex; `duality_gap_` certifies how close the fit is to the optimum.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])  # wide: two tasks on the same rows
    >>> model = MKMTRLRegressor(C=10).fit(X, Y)
    >>> model.predict(X).shape
    (40, 2)
    """

    specification = MKMTRLClassifier.specification


@describe((*KERNEL_MACHINE, *COUPLED), parameters=_COMPOSED, penalty=_PENALTY, solver=_SOLVER)
class MultiTaskKernelClassifier(PaperClassifier):
    """Custom classifier: kernel machines with any penalty on the kernel weights, and any solver.

    The duality gap of solutions is certified, as for the other models of this library; see
    `MultiTaskKernelRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.paper import MultiTaskKernelClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c"], 20)
    >>> model = MultiTaskKernelClassifier(penalty="shared").fit(X, X[:, 0] > 0, tasks=tasks)
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    def specification(self) -> Fit:
        penalty: Any = self.penalty
        is_named = isinstance(penalty, str) and penalty in NAMED_PENALTIES
        if is_named:
            penalty = NAMED_PENALTIES[penalty]
        elif not isinstance(penalty, Penalty | MixedNorm):
            if isinstance(penalty, type) or not callable(penalty):
                names = ", ".join(map(repr, NAMED_PENALTIES))
                raise ValueError(f"penalty must be {names}, a penalty, or a callable that returns one, got {penalty!r}")
            penalty = partial(_made_penalty, make=penalty)
        return make_fit(Fit, self, penalty=penalty, has_path=is_named and not isinstance(penalty, MixedNorm))


@describe((*KERNEL_MACHINE, *COUPLED), parameters=_COMPOSED, penalty=_PENALTY, solver=_SOLVER)
class MultiTaskKernelRegressor(PaperRegressor):
    """Custom regressor: kernel machines with any penalty on the kernel weights, and any solver.

    The duality gap of solutions is certified, as for the other models of this library.

    Examples
    --------
    Sparse kernel weights in each task (1-norm):

    >>> import numpy as np
    >>> from kernelkin.paper import MultiTaskKernelRegressor
    >>> from kernelkin.paper.penalties import LpPenalty
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = MultiTaskKernelRegressor(penalty=LpPenalty(p=1), C=10).fit(X, Y)
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    specification = MultiTaskKernelClassifier.specification


def _made_penalty(shape: Shape, make: Any) -> Penalty | MixedNorm:
    penalty = make(shape)
    if not isinstance(penalty, Penalty | MixedNorm):
        raise ValueError(f"the callable penalty must return a penalty, but it returned {penalty!r}")
    return penalty
