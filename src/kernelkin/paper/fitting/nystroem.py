"""Linear machines on Nystroem features, for tasks that are too large for an exact kernel machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...decompositions import eigh
from ..learners import SVR, Learner, Machine
from ..problems import Units

N_LANDMARKS = 500
# Eigenvalues of the landmarks' Gram below this share of the largest are rounding.
_NEGLIGIBLE = 1e-12
_MAX_ITER = 10_000


def fit_nystroem(
    cross: np.ndarray, landmarks: np.ndarray, learner: Learner, machine: Machine, tol: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a linear machine on Nystroem features: a function that is an expansion over the landmarks.

    Parameters
    ----------
    cross : array of shape (n, m)
        The kernel between the rows of the machine and its landmarks.
    landmarks : array of shape (m,)
        The rows that are landmarks.
    learner, machine : the loss, and targets and costs
    tol, seed : of the linear machine

    Returns
    -------
    a : array of shape (n, outputs)
        Coefficients; zero but for the landmarks.
    intercept : array of shape (outputs,)
    """
    own = cross[landmarks]
    eigenvalues, vectors = eigh((own + own.T) / 2)
    kept = eigenvalues > _NEGLIGIBLE * max(eigenvalues[-1], np.finfo(float).tiny)
    to_features = vectors[:, kept] / np.sqrt(eigenvalues[kept])
    features = cross @ to_features
    # Centred targets of order one: linear support vector machines penalise their intercept too.
    units = Units.of([machine], learner, weights=False)
    scaled, learner = units.machines([machine])[0], units.learner(learner)
    fit, intercept = _MACHINES[learner.name], bool(machine.n_groups)
    fits = [fit(learner, tol, seed, features, y, C, intercept) for y, C in zip(scaled.y.T, scaled.C.T, strict=True)]
    a = np.zeros(machine.y.shape)
    a[landmarks] = np.ldexp(to_features @ np.column_stack([w for w, _ in fits]), units.dual)
    return a, np.ldexp([c for _, c in fits], units.target) + units.offsets[0].sum(axis=0)


def _linear_svc(
    learner: Learner, tol: float, seed: int, Z: np.ndarray, y: np.ndarray, C: np.ndarray, fit_intercept: bool
) -> tuple[np.ndarray, float]:
    from sklearn.svm import LinearSVC

    model = LinearSVC(loss="hinge", tol=tol, max_iter=_MAX_ITER, random_state=seed, fit_intercept=fit_intercept)
    return _solution(model.fit(Z, y, sample_weight=C))


def _linear_svr(
    learner: Learner, tol: float, seed: int, Z: np.ndarray, y: np.ndarray, C: np.ndarray, fit_intercept: bool
) -> tuple[np.ndarray, float]:
    from sklearn.svm import LinearSVR

    assert isinstance(learner, SVR)
    model = LinearSVR(
        epsilon=learner.epsilon, tol=tol, max_iter=_MAX_ITER, random_state=seed, fit_intercept=fit_intercept
    )
    return _solution(model.fit(Z, y, sample_weight=C))


def _linear_ridge(
    learner: Learner, tol: float, seed: int, Z: np.ndarray, y: np.ndarray, C: np.ndarray, fit_intercept: bool
) -> tuple[np.ndarray, float]:
    from sklearn.linear_model import Ridge

    return _solution(Ridge(alpha=1.0, fit_intercept=fit_intercept).fit(Z, y, sample_weight=C))


def _solution(model: Any) -> tuple[np.ndarray, float]:
    """Return the weights and the intercept (0 where there is none) of one of scikit-learn's linear models."""
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


# Weights and intercept of a linear machine on features Z (n, m), for the loss of the learner of that name.
_MACHINES: dict[str, Callable[..., tuple[np.ndarray, float]]] = {
    "svm": _linear_svc,
    "svr": _linear_svr,
    "ridge": _linear_ridge,
}
