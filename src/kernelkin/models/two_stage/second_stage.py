"""The second stage: one kernel machine for a task at given kernel weights, exact, or on Nystroem features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...grams.rows import RowKernels
from ...kernels import Scaling, is_psd, nearest_psd
from ...kernels.distances import mirror
from ...learners import SVR, Learner, Machine

# Landmarks of a Nystroem map. Their eigenvalues below this share of the largest are rounding.
LANDMARKS = 500
NEGLIGIBLE = 1e-12

# Coefficients (n, m), intercepts (m,), the machine's objective and its duality gap.
Fitted = tuple[np.ndarray, np.ndarray, float, float]


@dataclass(frozen=True)
class SecondStage:
    """How a task's machine is solved.

    Parameters
    ----------
    learner : the machine.
    max_exact : tasks of more rows use Nystroem features and one of scikit-learn's linear machines.
    tol : the relative duality gap of exact machines, and the tolerance of the linear ones.
    seed : of the landmarks.
    """

    learner: Learner
    max_exact: int
    tol: float
    seed: int

    def solve(
        self, values: RowKernels, scaling: Scaling, base: np.ndarray, at: np.ndarray, b: np.ndarray, machine: Machine
    ) -> Fitted:
        """Coefficients over the task's rows, intercepts, objective and gap at kernel weights b (K,).

        A machine on Nystroem features has neither objective nor gap (NaN). The task has the rows base[at] of those that
        its scaling was fitted on.
        """
        if len(at) > self.max_exact:
            return self._approximate(values, scaling, base, at, b, machine)
        gram = values.combined(b, scaling, base, at, at)
        mirror(gram)
        # Each kernel was found sound within rounding; what rounding left below zero must not enter a certificate.
        if not (values.known_psd or is_psd(gram)):
            gram = nearest_psd(gram)
        dual = self.learner.solve(gram, machine, tol=self.tol)
        return dual.a, dual.intercept.sum(axis=0), dual.primal, max(dual.gap, 0.0)

    def _approximate(
        self, values: RowKernels, scaling: Scaling, base: np.ndarray, at: np.ndarray, b: np.ndarray, machine: Machine
    ) -> Fitted:
        """A linear machine on Nystroem features: a function that is an expansion over the landmarks."""
        rng = np.random.default_rng(self.seed)
        landmarks = np.sort(rng.choice(len(at), min(LANDMARKS, self.max_exact), replace=False))
        cross = values.combined(b, scaling, base, at, at[landmarks])
        eigenvalues, vectors = np.linalg.eigh((cross[landmarks] + cross[landmarks].T) / 2)
        kept = eigenvalues > NEGLIGIBLE * max(eigenvalues[-1], np.finfo(float).tiny)
        to_features = vectors[:, kept] / np.sqrt(eigenvalues[kept])
        fits = [
            LINEAR_MACHINES[self.learner.name](self, cross @ to_features, y, C, bool(machine.n_groups))
            for y, C in zip(machine.y.T, machine.C.T, strict=True)
        ]
        a = np.zeros(machine.y.shape)
        a[landmarks] = to_features @ np.column_stack([w for w, _ in fits])
        return a, np.array([c for _, c in fits]), np.nan, np.nan


def _linear_svc(stage: SecondStage, Z: np.ndarray, y: np.ndarray, C: np.ndarray, intercept: bool) -> tuple:
    from sklearn.svm import LinearSVC

    fit = LinearSVC(loss="hinge", tol=stage.tol, max_iter=10_000, random_state=stage.seed)
    fit.set_params(fit_intercept=intercept).fit(Z, y, sample_weight=C)
    return fit.coef_[0], float(np.ravel(fit.intercept_)[0]) if intercept else 0.0


def _linear_svr(stage: SecondStage, Z: np.ndarray, y: np.ndarray, C: np.ndarray, intercept: bool) -> tuple:
    from sklearn.svm import LinearSVR

    assert isinstance(stage.learner, SVR)
    fit = LinearSVR(
        epsilon=stage.learner.epsilon,
        tol=stage.tol,
        max_iter=10_000,
        fit_intercept=intercept,
        random_state=stage.seed,
    )
    fit.fit(Z, y, sample_weight=C)
    return fit.coef_, float(np.ravel(fit.intercept_)[0]) if intercept else 0.0


def _linear_ridge(stage: SecondStage, Z: np.ndarray, y: np.ndarray, C: np.ndarray, intercept: bool) -> tuple:
    from sklearn.linear_model import Ridge

    fit = Ridge(alpha=1.0, fit_intercept=intercept).fit(Z, y, sample_weight=C)
    return fit.coef_, float(fit.intercept_)


# Weights and intercept of a linear machine on features Z (n, m), for the loss of the learner of that name.
LINEAR_MACHINES: dict[str, Callable[..., tuple[np.ndarray, float]]] = {
    "svm": _linear_svc,
    "svr": _linear_svr,
    "ridge": _linear_ridge,
}
