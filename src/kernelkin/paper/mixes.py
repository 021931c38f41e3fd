"""Kernel ridge regression of wide data: kernel weights and strength chosen for each task by held-out errors.

With G a mix of kernels, c the strength and `V = c G + I`, a ridge machine of cost 1 has the dual variables `a = R y`. R
is the inverse of V without the direction of the intercept. One eigendecomposition gives the leave-one-out residuals
`a_i / R_ii` of every task at every strength.

The own weights of a task are variance components: its targets have the covariance `theta_0 I + sum_k theta_k G_k`. The
solution of

    S theta = r,    S_kl = tr(R G_k R G_l),   r_k = y' R G_k R y,      G_0 = I,

is an unbiased estimate of theta for any V (MINQUE). If V is this covariance up to a factor s, it is also a step of
Fisher scoring towards maximum likelihood, and the information about theta/s is S/2. S does not depend on the task, so
K + 1 products give the estimates of all tasks. Memory is `O(K n^2 + n T)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from ..data.forms import TaskData
from ..decompositions import least_squares, pseudo_inverse
from ..estimators import Fitted, RunOptions
from ..memory import Need
from .fitting.fit import Fit, FitPlan
from .grams.coupled import on_device
from .grams.operator import SharedOperator, in_blocks
from .learners.machines import Ridge
from .penalties.norms import FixedWeights
from .problems.columns import Block, solve_block
from .problems.panel import MachinePanel

# Strengths to try: C times the sum of weights, for kernels of mean diagonal one. Gains are over the even mix at 1.
STRENGTHS = np.logspace(-3, 4, 15)
# Maximum number of groups of tasks with their own mix.
GROUPS = 8
# Own weights must explain this share of the variance of held-out rows beyond what mixes explain. Held out is a share of
# at least `_FEWEST` rows. At most `_CHECKED` tasks of a group are compared, up to the relative duality gap `_TOL`.
_LEAST_GAIN, _HELD, _FEWEST, _CHECKED, _TOL = 1e-4, 0.25, 12, 128, 1e-4
# Sweeps of coordinate descent.
_SWEEPS = 100
# Minimum standard deviation between tasks, as a share of the mean, so that tasks are never taken to be equal.
_LEAST_SPREAD = 1e-2
_TINY = np.finfo(float).tiny

# Members, mix (K,) and strength of each group of tasks.
Groups = list[tuple[np.ndarray, np.ndarray, float]]


class TaskMixFit(Fit):
    """Specification of kernel machines with weights chosen for each task, in place of the given penalty."""

    def plan(self, data: TaskData, kernels: Any = None) -> TaskMixPlan:
        """Validate the data and return the plan."""
        if not isinstance(self.targets.learner(), Ridge):
            lacking = "the squared loss of regression"
        elif data.form != "wide":
            lacking = "wide data (y with a column for each task)"
        elif any(len(rows) < len(data.X) for rows in data.rows):
            lacking = "a label for every row and task"
        else:
            lacking = "rows of equal weight" if len(np.unique(data.sample_weight)) > 1 else ""
        if lacking:
            raise ValueError(f"per_task=True chooses weights by held-out errors of each task, which needs {lacking}")
        return TaskMixPlan(*super().plan(data, kernels))


class TaskMixPlan(FitPlan):
    """The specification applied to data."""

    def memory(self, n_jobs: int = 1, n_fits: int = 0) -> Need:
        """Bound the memory of the fit."""
        need, X = super().memory(n_jobs, n_fits), self.data.X
        # Beside the Gram matrices: their products with an inverse, that inverse and eigenvectors.
        n_kernels = X.shape[2] if self.kernels is None else len(self.kernels)
        return Need(need.peak + 8 * len(X) ** 2 * (n_kernels + 6), need.advice)

    def run(self, options: RunOptions, raw: Any = None, scaled: Any = None) -> Fitted:
        """Choose the weights, fit with them, and add the `TaskMixes` to the attributes."""
        grams, bank = self.grams(raw) if scaled is None else scaled
        shared: Any = grams if self.fit.device is None else on_device(grams, self.fit.device)
        panel = self.machines
        if not isinstance(panel, MachinePanel):
            panel = MachinePanel.of(panel, self.data.rows, len(self.data.X))
        found = choose_mixes(shared.operator, panel.y, has_intercept=panel.has_intercept)
        # Weights are chosen at cost 1; here the cost of every row is its weight.
        plan = FitPlan(*self)._replace(penalty=FixedWeights(found.B / panel.cost[0, 0]))
        fitted = plan.run(options, scaled=(grams, bank))
        fitted.attributes["task_mixes"] = found
        return fitted


class TaskMixes(NamedTuple):
    """Result of the search."""

    B: np.ndarray  # (K, T) the kernel weights of each task, at cost 1
    mixes: np.ndarray  # (m, K) the mixes, with sum one
    errors: np.ndarray  # (m, c, T) mean squared leave-one-out errors, as shares of the variance of targets
    choices: np.ndarray  # (T, 2) the positions of the mix and the strength of each task
    by_own: np.ndarray  # (T,) whether the task uses its own weights instead of that mix

    def table(self) -> dict[str, Any]:
        """Return `cv_results_` with a row per mix and strength: mean R^2 over tasks and its standard error."""
        scores = 1.0 - self.errors.reshape(-1, self.errors.shape[2])
        mean = scores.mean(axis=1)
        return {
            "params": [{"kernel_weights": mix, "C": C} for mix in self.mixes.tolist() for C in STRENGTHS.tolist()],
            "param_C": np.tile(STRENGTHS, len(self.mixes)),
            "mean_test_score": mean,
            "standard_error": scores.std(axis=1) / np.sqrt(scores.shape[1]),
            "rank_test_score": rankdata(-mean, "min").astype(int),
            "converged": np.ones(len(mean), dtype=bool),
        }


class Mix:
    """Ridge machines of all tasks on a mix (K,) of kernels, from targets (n, T) where the operator is.

    With an intercept, the mean of targets is zero, and the Gram matrix is centred.
    """

    def __init__(self, operator: SharedOperator, Y: Any, has_intercept: bool, weights: np.ndarray) -> None:
        self.operator, self.arrays, self.Y, self.weights = operator, operator.arrays, Y, weights
        gram = sum(float(weights[k]) * operator.matrix(k) for k in np.flatnonzero(weights).tolist())
        if has_intercept:
            gram = gram - gram.mean(0) - gram.mean(1)[:, None] + gram.mean()
        values, self.vectors = self.arrays.eigh(gram)
        self.values = self.arrays.xp.where(values > 0, values, 0.0 * values)
        # The direction of the intercept is removed by subtracting this from each entry of the inverse.
        self.free = 1.0 / len(values) if has_intercept else 0.0

    def duals(self, turned: Any, strength: float) -> Any:
        """Return R Y (n, o), from Y in the basis of the eigenvectors."""
        return self.vectors @ (turned / (strength * self.values + 1.0)[:, None])

    def left_out(self, turned: Any, strength: float) -> Any:
        """Return leave-one-out residuals (n, o), from Y in the basis of the eigenvectors."""
        diagonal = (self.vectors * self.vectors) @ (1.0 / (strength * self.values + 1.0)) - self.free
        return self.duals(turned, strength) / diagonal[:, None]

    def errors(self, even: Mix) -> tuple[np.ndarray, np.ndarray]:
        """Return leave-one-out mean squared errors (c, T), and expected gains over another mix at strength one."""

        def work(Y: Any) -> list[Any]:
            turned, rows = self.vectors.T @ Y, []
            base = even.left_out(even.vectors.T @ Y, 1.0) ** 2
            for c in STRENGTHS.tolist():
                loss = self.left_out(turned, c) ** 2
                gain = (base - loss).mean(0)
                rows += [loss.mean(0), gain, ((base - loss - gain) ** 2).mean(0)]
            return rows

        table = self._columns(work, np.arange(self.Y.shape[1]))
        return table[0::3], expected_gains(table[1::3], table[2::3] / len(self.Y))

    def own_weights(self, strength: float, members: np.ndarray) -> np.ndarray:
        """Return own mixes (K, members) of some tasks, by a step of Fisher scoring from this mix.

        Each has sum one, or is zero if no kernel explains variance of the task.
        """
        *moments, square = self._columns(lambda Y: self.moments(Y, strength), members)
        scale = square / max(len(self.Y) - int(self.free > 0), 1)
        weights = shrunk_components(self.information(strength), moments / np.maximum(scale, _TINY))[1:]
        return weights / np.maximum(weights.sum(axis=0), _TINY)

    def moments(self, Y: Any, strength: float) -> list[Any]:
        """Return r and, in the last row, y' R y of the columns of Y (n, o)."""
        turned = self.vectors.T @ Y
        a = self.duals(turned, strength)
        products = [a, *(self.operator.matrix(k) @ a for k in range(self.operator.n_kernels))]
        square = (turned * turned / (strength * self.values + 1.0)[:, None]).sum(0)
        return [*((a * product).sum(0) for product in products), square]

    def information(self, strength: float) -> np.ndarray:
        """Return S (K + 1, K + 1), with the noise first."""
        inverse = (self.vectors / (strength * self.values + 1.0)) @ self.vectors.T - self.free
        products = [inverse, *(self.operator.matrix(k) @ inverse for k in range(self.operator.n_kernels))]
        flat = (product.T.reshape(-1) for product in products)
        S = np.array([[float(self.arrays.xp.vdot(row, other.reshape(-1))) for other in products] for row in flat])
        return 0.5 * (S + S.T)

    def _columns(self, work: Callable[[Any], list[Any]], members: np.ndarray) -> np.ndarray:
        """Apply `work` to the targets of some tasks, in blocks, and return its rows as a NumPy array."""

        def some(where: slice) -> np.ndarray:
            rows = work(self.Y[:, self.arrays.array(members[where])])
            return self.arrays.numpy(self.arrays.xp.stack(rows))

        size = self.arrays.columns(self.operator.n_rows, self.operator.n_kernels)
        return np.concatenate(in_blocks(self.arrays, len(members), size, some), axis=-1)


def choose_mixes(operator: SharedOperator, Y: np.ndarray, *, has_intercept: bool) -> TaskMixes:
    """Choose the kernel weights of each column of Y (n, T)."""
    (n_rows, n_tasks), every = Y.shape, np.arange(Y.shape[1])
    Y = Y - Y.mean(axis=0) if has_intercept else Y
    # Targets may have any units.
    targets = operator.arrays.array(Y / np.sqrt(np.maximum(np.square(Y).mean(axis=0), _TINY)))
    even = Mix(operator, targets, has_intercept, np.full(operator.n_kernels, 1.0 / operator.n_kernels))
    mixes, found = [even.weights], [even.errors(even)]
    groups: Groups = []
    own = even.own_weights(_best_strength(found[0][0]), every)
    # From one mix of all tasks, then from those of groups.
    for labels in (np.zeros(n_tasks, dtype=int), None):
        if labels is None:
            # The group of a task is the kernel whose weight in its own mix is most above the mean.
            above = own - own.mean(axis=1, keepdims=True)
            largest = np.argsort(-np.bincount(above.argmax(axis=0), minlength=len(own)), kind="stable")[:GROUPS]
            labels = np.unique(above[largest].argmax(axis=0), return_inverse=True)[1]
        start, own, groups = own, own.copy(), []
        for label in range(labels.max() + 1):
            members = np.flatnonzero(labels == label)
            total = start[:, members].sum(axis=1)
            mix = Mix(operator, targets, has_intercept, total / total.sum() if total.any() else even.weights)
            mixes.append(mix.weights)
            found.append(mix.errors(even))
            strength = _best_strength(found[-1][0][:, members])
            own[:, members] = mix.own_weights(strength, members)
            groups.append((members, mix.weights, strength))
    errors, gains = np.array(found).swapaxes(0, 1)
    mix_of, strength_of = np.divmod(gains.reshape(-1, n_tasks).argmax(axis=0), len(STRENGTHS))
    total = mean_strengths(gains[mix_of, :, every].T, errors[mix_of, strength_of, every], n_rows)
    shared = total * np.array(mixes)[mix_of].T
    by_own = (mix_of > 0) & own.any(axis=0)
    if gain_of_own_weights(operator, targets, has_intercept, groups, shared) <= _LEAST_GAIN:
        by_own[:] = False
    B = np.where(by_own, total * own, shared)
    return TaskMixes(B, np.array(mixes), errors, np.column_stack([mix_of, strength_of]), by_own)


def _best_strength(errors: np.ndarray) -> float:
    """Return the strength that is best for all tasks together, from their errors (c, T)."""
    return float(STRENGTHS[errors.mean(axis=1).argmin()])


def expected_gains(gains: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return expected gains (c, T) from measured gains over a reference and their error variances (c, T).

    True gains of a candidate are assumed to be normal around their mean over tasks, with the variance of the measured
    gains beyond their errors. The expected gain is the posterior mean; with large errors it is the mean over tasks.
    """
    mean = gains.mean(axis=1, keepdims=True)
    between = np.maximum(gains.var(axis=1, keepdims=True) - variance.mean(axis=1, keepdims=True), 0.0)
    total = between + variance
    return np.where(total > 0, (between * gains + variance * mean) / np.maximum(total, _TINY), gains)


def mean_strengths(gains: np.ndarray, loss: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the strength of each task (T,): the geometric mean of all strengths, weighted by their gains (c, T).

    The weights are likelihoods for Gaussian errors with mean square `loss` (T,) on `n_rows` rows.
    """
    weights = 0.5 * n_rows * gains / np.maximum(loss, _TINY)
    weights = np.exp(weights - weights.max(axis=0))
    return np.exp(np.log(STRENGTHS) @ weights / weights.sum(axis=0))


def shrunk_components(S: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return components theta >= 0 (K + 1, T) from S and r (K + 1, T), shrunk towards the mean of all tasks.

    The estimate of a task has the covariance 2 inv(S). Variance of the estimates beyond that is variance between tasks.
    """
    # S is singular if the rows cannot distinguish some components.
    covariance = pseudo_inverse(S, cutoff=1e-10)
    estimates = covariance @ moments
    mean = bounded_least_squares(S, moments.mean(axis=1, keepdims=True))
    spread = estimates.var(axis=1, ddof=1) if estimates.shape[1] > 1 else np.full(len(mean), np.inf)
    between = np.maximum(spread - 2.0 * np.diag(covariance), np.square(_LEAST_SPREAD * mean[:, 0] + 1e-12))
    prior = np.diag(1.0 / between)
    return bounded_least_squares(0.5 * S + prior, 0.5 * moments + prior @ mean)


def bounded_least_squares(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return about the minimum of x' H x / 2 - g' x over x >= 0 for each column of g (K, T), by coordinate descent."""
    x, diagonal = np.maximum(least_squares(H, g), 0.0), np.maximum(np.diag(H), _TINY)
    for k in [*range(len(H))] * _SWEEPS:
        x[k] = np.maximum(x[k] + (g[k] - H[k] @ x) / diagonal[k], 0.0)
    return x


def gain_of_own_weights(
    operator: SharedOperator, Y: Any, has_intercept: bool, groups: Groups, shared: np.ndarray
) -> float:
    """Return how much own weights lower the squared errors of held-out rows, in the mean over tasks.

    Leave-one-out errors would be biased, because a task's own weights were found from all of its rows. So own weights
    are found again without a quarter of the rows, and compared on that quarter with the weights `shared` (K, T) of the
    mixes that tasks chose, at cost 1. Own weights are scaled to the same sum.
    """
    n_rows, arrays = len(Y), operator.arrays
    if n_rows < _FEWEST:
        return 0.0
    order = np.random.default_rng(0).permutation(n_rows)
    held, rows = np.sort(order[: int(_HELD * n_rows)]), np.sort(order[int(_HELD * n_rows) :])
    kept, cross = operator.take(rows), operator.entries(held, rows)

    gain = 0.0
    for members, mix, strength in groups:
        some = members[:: -(-len(members) // _CHECKED)]
        train, test = (Y[arrays.array(part)][:, arrays.array(some)] for part in (rows, held))
        centred = train - train.mean(0) if has_intercept else train
        own = Mix(kept, centred, has_intercept, mix).own_weights(strength, np.arange(len(some)))
        own = np.where(own.any(axis=0), own * shared[:, some].sum(axis=0), shared[:, some])
        # Both in one block of columns.
        b, y = arrays.array(np.hstack([shared[:, some], own])), arrays.xp.hstack([train, train])
        block = Block(kept, b, y, arrays.array(np.ones((1, len(b[0])))), None, has_intercept)
        solution = solve_block(block, None, _TOL)
        values = sum(arrays.cast(G, single=False) @ (solution.a * w) for G, w in zip(cross, b, strict=True))
        squares = ((arrays.xp.hstack([test, test]) - values - solution.intercept) ** 2).mean(0)
        gain += float((squares[: len(some)] - squares[len(some) :]).mean()) * len(members) / shared.shape[1]
    return gain
