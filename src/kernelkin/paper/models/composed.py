"""A model composed of a loss, a penalty and a solver."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metaestimators import available_if

from ...parameters import CLASSES, COUPLED, KERNEL_MACHINE, Parameter, describe
from ..fitting.fit import Fit, Shape
from ..fitting.targets import Classification, Regression, Targets
from ..penalties.norms import LpPenalty, MixedNorm, SharedLpPenalty
from ..penalties.relation import Penalty
from .base import PaperClassifier, PaperEstimator, PaperRegressor
from .machines import make_fit, relation_penalty

LOSSES: dict[str, Targets] = {
    "hinge": Classification("hinge"),
    "squared": Regression("squared"),
    "epsilon_insensitive": Regression("epsilon_insensitive"),
}
# Penalties by name, with default parameters. All but the last are homogeneous of degree two.
NAMED_PENALTIES: dict[str, Any] = {
    "relation": relation_penalty,
    "lp": LpPenalty(),
    "shared": SharedLpPenalty(),
    "mixed": MixedNorm(),
}


def _is_classification(model: MultiTaskKernelEstimator) -> bool:
    return isinstance(_read_loss(model.loss), Classification)


@describe(
    (*KERNEL_MACHINE, *CLASSES, *COUPLED),
    parameters="kernels * loss penalty solver C mu parsimony couplings sharing normalize "
    "unknown_tasks task_column init tol max_iter n_jobs device verbose callback",
    loss=Parameter(
        '{"hinge", "squared", "epsilon_insensitive"}, Classification or Regression',
        'Loss function. "hinge" gives a classifier, the others a regressor. For further options, pass '
        "`Classification(loss, class_weight)` or `Regression(loss, epsilon, fit_intercept)` from "
        "`kernelkin.paper.fitting`.",
        default="squared",
    ),
    penalty=Parameter(
        '{"relation", "lp", "shared", "mixed"}, penalty or callable',
        "Penalty on the kernel weights B (K, J): a name, a penalty (any object with the methods of "
        "`paper.penalties.Penalty`), or a callable that takes a `Shape` (`n_kernels`, `n_tasks`, `n_couplings`) and "
        "returns a penalty.",
        default="relation",
    ),
    solver=Parameter(
        "str, solver or None",
        "The name or an instance of a solver in `paper.solvers`, or of your own subclass of `paper.solvers.Solver`. "
        "None: the default solver of the problem.",
        [str, HasMethods("run"), None],
    ),
)
class MultiTaskKernelEstimator(PaperEstimator):
    """Custom model: kernel machines with any combination of loss, penalty on the kernel weights, and solver.

    The duality gap of solutions is certified, as for the other models of this library.

    Examples
    --------
    Sparse kernel weights in each task (1-norm):

    >>> import numpy as np
    >>> from kernelkin.paper import MultiTaskKernelEstimator
    >>> from kernelkin.paper.penalties import LpPenalty
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = MultiTaskKernelEstimator(loss="squared", penalty=LpPenalty(p=1), C=10).fit(X, Y)
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    def specification(self) -> Fit:
        named, penalty = isinstance(self.penalty, str), self.penalty
        if named:
            penalty = NAMED_PENALTIES.get(penalty)
        elif not _is_penalty(penalty):
            is_function = callable(penalty) and not isinstance(penalty, type)
            penalty = partial(_made_penalty, make=penalty) if is_function else None
        if penalty is None:
            raise ValueError(
                f"penalty must be one of {', '.join(map(repr, NAMED_PENALTIES))}, a penalty, or a callable that "
                f"returns one, got {self.penalty!r}"
            )
        has_path = named and not isinstance(penalty, MixedNorm)
        return make_fit(Fit, self, penalty=penalty, targets=_read_loss(self.loss), has_path=has_path)

    # Methods that exist only for classifiers or only for regressors, depending on the loss.
    decision_function = available_if(_is_classification)(PaperClassifier.decision_function)
    predict_proba = available_if(_is_classification)(PaperClassifier.predict_proba)
    _probabilities = PaperClassifier._probabilities
    predict_interval = available_if(lambda self: not _is_classification(self))(PaperRegressor.predict_interval)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if _is_classification(self):
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = True
        return tags


def _read_loss(loss: Any) -> Targets:
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    if isinstance(loss, Classification | Regression):
        return loss
    raise ValueError(
        f"loss must be one of {', '.join(map(repr, LOSSES))}, a Classification or a Regression, got {loss!r}"
    )


def _is_penalty(penalty: Any) -> bool:
    methods = ("value_and_gradient", "bound", "relation")
    return isinstance(penalty, MixedNorm) or (
        not isinstance(penalty, type) and all(callable(getattr(penalty, name, None)) for name in methods)
    )


def _made_penalty(shape: Shape, make: Callable[[Shape], Any]) -> Penalty | MixedNorm:
    penalty = make(shape)
    if not _is_penalty(penalty):
        raise ValueError(f"the callable penalty must return a penalty, but it returned {penalty!r}")
    return penalty
