"""MKL-SA (Bucak, Jin and Jain): one kernel mix for all tasks, good for the worst of them."""

from __future__ import annotations

from ..fitting import Classification, Fit, Shape
from ..penalties import SimplexPenalty
from ..solvers import StochasticApproximation
from .kinds import MultiTaskClassifier
from .parameters import CLASSES, COUNT, KERNEL_MACHINE, Parameter, describe

_PASSES = Parameter(
    "int", "Maximum number of passes of T rounds; a pass costs what solving all machines once does.", COUNT
)


@describe((*KERNEL_MACHINE, *CLASSES), max_iter=_PASSES)
class MKLSAClassifier(MultiTaskClassifier):
    """MKL-SA: one mix of kernels for all tasks, best for the worst of them, learned one task at a time.

    Made for many tasks: a round solves the machine of one task, drawn by how hard the tasks are. `objective_` is the
    value of the worst task's machine.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKLSAClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = MKLSAClassifier(random_state=0, tol=0.1).fit(X, y, tasks=tasks)
    >>> float(model.kernel_weights_[0].sum().round(6))
    1.0
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        parsimony=0.0,
        loss="hinge",
        class_weight=None,
        normalize="trace",
        task_column=None,
        tol=1e-2,
        max_iter=100,
        n_jobs=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.kernels = kernels
        self.C = C
        self.parsimony = parsimony
        self.loss = loss
        self.class_weight = class_weight
        self.normalize = normalize
        self.task_column = task_column
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def specification(self) -> Fit:
        return Fit(
            targets=Classification(self.loss, self.class_weight),
            penalty=_penalty,
            worst_task=True,
            kernels=self.kernels,
            C=self.C,
            parsimony=self.parsimony,
            normalize=self.normalize,
            solver=StochasticApproximation(self.random_state),
            tol=self.tol,
            max_iter=self.max_iter,
        )


def _penalty(shape: Shape) -> SimplexPenalty:
    return SimplexPenalty(shape.n_components)
