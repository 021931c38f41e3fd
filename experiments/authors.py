"""What the program of the paper's authors computes on stock, model by model, faults included.

Nothing here is a method to use: it shows where the published figures come from. B (K, T) are kernel weights, a (n, T)
dual variables, G (K, T) half their quadratic forms. Grams have trace one, and there are no intercepts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from kernelkin.kernels.kernel import Kernel, evaluate, fit_kernels

# How often each of their loops turns at most, and the relative change of a value at which it ends.
ROUNDS, CHANGE = 100, 1e-8


@dataclass(eq=False, repr=False)
class KernelTimesItself(RegressorMixin, BaseEstimator):
    """Their STL: ridge trained on the linear kernel times itself, which predicts with the kernel."""

    C: float = 10.0

    def fit(self, X: np.ndarray, y: np.ndarray) -> KernelTimesItself:
        gram = X @ X.T
        self.rows_ = X
        self.dual_coef_ = np.linalg.solve(gram @ gram + np.eye(len(X)) / self.C, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X @ self.rows_.T @ self.dual_coef_


@dataclass(frozen=True)
class Machines:
    """Ridge regression of every target at kernel weights B: dual variables, G, and the sum of the dual values."""

    a: np.ndarray
    G: np.ndarray
    linear: float
    value: float

    @classmethod
    def at(cls, B: np.ndarray, grams: np.ndarray, y: np.ndarray, C: float) -> Machines:
        systems = np.einsum("kt,kij->tij", B, grams) + np.eye(len(y)) / C
        a = np.linalg.solve(systems, y.T[..., np.newaxis])[..., 0].T
        G = 0.5 * np.einsum("it,kij,jt->kt", a, grams, a, optimize=True)
        linear = float(np.vdot(a, y) - np.vdot(a, a) / (2 * C))
        return cls(a, G, linear, linear - float(np.vdot(B, G)))


@dataclass(eq=False, repr=False)
class AuthorsModel(RegressorMixin, BaseEstimator, ABC):
    """Machines at the kernel weights that `_learn` ends with."""

    kernels: Sequence[Kernel] = field(default_factory=list)
    C: float = 10.0

    def fit(self, X: np.ndarray, y: np.ndarray) -> AuthorsModel:
        self.rows_, self.fitted_kernels_ = X, fit_kernels(self.kernels, X)
        grams = evaluate(self.fitted_kernels_, X)
        self.traces_ = np.trace(grams, axis1=1, axis2=2)
        grams = grams / self.traces_[:, np.newaxis, np.newaxis]
        self.weights_ = self._learn(grams, y)
        self.dual_coef_ = Machines.at(self.weights_, grams, y, self.C).a
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        cross = evaluate(self.fitted_kernels_, X, self.rows_)
        weights = self.weights_ / self.traces_[:, np.newaxis]
        return np.einsum("kt,kqi,it->qt", weights, cross, self.dual_coef_, optimize=True)

    @abstractmethod
    def _learn(self, grams: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Grams (K, n, n) of trace one and targets (n, T) -> kernel weights (K, T)."""


@dataclass(eq=False, repr=False)
class UnitNorm(AuthorsModel):
    """Their IMKL: each task's weights have p-norm one, and there is no mu."""

    p: float = 3.0

    def _learn(self, grams: np.ndarray, y: np.ndarray) -> np.ndarray:
        B, settled = np.full((len(grams), y.shape[1]), len(grams) ** -0.5), Settled()
        for _ in range(ROUNDS):
            machines = Machines.at(B, grams, y, self.C)
            squares = B**2 * machines.G
            B = squares ** (1 / (self.p + 1)) / (squares ** (self.p / (self.p + 1))).sum(axis=0) ** (1 / self.p)
            if settled(machines.value):
                break
        return B


@dataclass(eq=False, repr=False)
class FrozenShares(AuthorsModel):
    """Their MK-MTFL: how tasks share a kernel is learned, how much each kernel counts is not.

    The shares of the kernels move by exponentiated gradient steps of length 1e-6, and the loop ends after 100 of them:
    on stock they stay equal to five digits.
    """

    p: float = 3.0
    step: float = 1e-6

    def _learn(self, grams: np.ndarray, y: np.ndarray) -> np.ndarray:
        (K, T), q = (len(grams), y.shape[1]), self.p / (self.p - 2)
        shares, within = np.full((K, 1), 1 / K), np.full((K, T), T ** (-1 / q))
        step, outer = self.step, Settled()
        for _ in range(ROUNDS):
            inner = Settled()
            for _ in range(ROUNDS):
                machines = Machines.at(shares / within, grams, y, self.C)
                G = machines.G
                within = G ** (1 / (q + 1)) / (G ** (q / (q + 1))).sum(axis=1, keepdims=True) ** (1 / q)
                if inner(machines.value):
                    break
            slope = -(G / within).sum(axis=1, keepdims=True)
            value = machines.linear + float(np.vdot(shares, slope))
            shares = shares * np.exp(-step * slope)
            shares /= shares.sum()
            if outer(value):
                break
            step *= 0.5 if outer.rose else 1.0
        return shares / within


@dataclass(eq=False, repr=False)
class Thresholded(AuthorsModel):
    """Their MK-MTRL: Algorithm 1 by Newton steps without damping, and weights below a threshold set to zero.

    Undamped steps go below zero, and stay there while the loop of Newton steps lasts; the threshold then takes what is
    negative too. Both together decide which weights are left.
    """

    mu: float = 1e-5
    threshold: float = 1.0
    ridge: float = 1e-8

    def _learn(self, grams: np.ndarray, y: np.ndarray) -> np.ndarray:
        T = y.shape[1]
        B, Omega, outer = np.full((len(grams), T), len(grams) ** -0.5), np.eye(T) / T, Settled()
        for _ in range(ROUNDS):
            P, inner = np.linalg.inv(Omega), Settled()
            for _ in range(ROUNDS):
                machines = Machines.at(B, grams, y, self.C)
                value = machines.value + self._penalty(B, P)
                B = self._newton(B, machines, P)
                B = np.where(self.threshold > B, 0.0, B)
                if inner(value):
                    break
            sizes, axes = np.linalg.eigh(B.T @ B + self.ridge * np.eye(T))
            Omega = axes * np.sqrt(np.abs(sizes)) @ axes.T
            Omega /= np.trace(Omega)
            if outer(machines.linear - float(np.vdot(B, machines.G)) + self._penalty(B, P)):
                break
        return B

    def _penalty(self, B: np.ndarray, P: np.ndarray) -> float:
        return self.mu * float(np.vdot(B @ P, B))

    def _newton(self, B: np.ndarray, machines: Machines, P: np.ndarray) -> np.ndarray:
        """Steps towards the least of `sum W/B + (mu/2) tr(B P B')`, whose end is judged by another value."""
        W, settled = np.maximum(B**2 * machines.G, 0.0), Settled()
        own = np.arange(B.shape[1])
        for _ in range(ROUNDS - 1):
            slope = _zero_where_undefined(self.mu * B @ P - _quotient(W, B**2))
            curvature = np.repeat(self.mu * P[np.newaxis], len(B), axis=0)
            curvature[:, own, own] += 2 * _zero_where_undefined(_quotient(W, B**3))
            B = B - np.linalg.solve(curvature, slope[..., np.newaxis])[..., 0]
            value = machines.linear - float(np.vdot(B, machines.G)) + self._penalty(B, P)
            if settled(value) or np.linalg.norm(slope, axis=1).sum() < CHANGE:
                break
        return B


def _quotient(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return above / below


def _zero_where_undefined(values: np.ndarray) -> np.ndarray:
    """A weight that is zero has no slope and no curvature of its own: it moves as the relationship says."""
    return np.where(np.isnan(values), 0.0, values)


class Settled:
    """Whether a value has changed by so little, relative to what it was, that a loop may end."""

    def __init__(self) -> None:
        self.last, self.rose = np.inf, False

    def __call__(self, value: float) -> bool:
        last, self.last = self.last, value
        self.rose = last < value
        return abs(value - last) <= CHANGE * abs(last) < np.inf
