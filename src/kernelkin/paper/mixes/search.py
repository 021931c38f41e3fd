"""Kernel ridge regression of wide data: kernel weights and strength chosen for each task by held-out errors.

Tasks choose among a few mixes of kernels: even weights, the mean weights of all tasks, and the mean weights of groups
of tasks with similar weights. For each mix, `errors` computes leave-one-out errors of all tasks at all strengths, and
each task's own weights. Tasks choose a mix and a strength by their errors. A task that chooses a mix other than the
even one uses its own weights instead if they predict rows that were not used to find them better than the mix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...data.forms import TaskData
from ...estimators import Fitted, RunOptions
from ...memory import Need
from ..fitting.fit import Fit
from ..grams.coupled import on_device
from ..grams.operator import SharedOperator, in_blocks
from ..grams.stack import SharedGrams
from ..learners.machines import Ridge
from ..penalties.norms import FixedWeights
from ..problems.columns import Block, solve_block
from ..problems.panel import MachinePanel
from ..uncertainty import Uncertainty
from .errors import Spectrum, TaskTargets

# Strengths to try: C times the sum of the weights, for kernels of mean diagonal one.
STRENGTHS = np.logspace(-3, 4, 15)
# Maximum number of groups of tasks with their own mix, and the mean number of tasks in a group.
GROUPS, TASKS_PER_GROUP = 8, 12
# Minimum gain of a task's own weights, as a share of the variance of its targets: machines are not more accurate.
_LEAST_GAIN = 1e-4
# Share of rows that is held out to evaluate own weights, and minimum number of rows for such a split.
_HELD, _FEWEST = 0.25, 12
# Relative duality gap of the machines that evaluate own weights, far below the differences between their errors.
_TOL = 1e-4

# Members, mix (K,) and strength of each group of tasks.
Groups = list[tuple[np.ndarray, np.ndarray, float]]


class TaskMixFit(NamedTuple):
    """Specification of kernel machines with weights chosen for each task, and with `even`, applied to data.

    Parameters
    ----------
    fit : the specification with even weights, which the chosen weights replace
    even : its plan for data
    """

    fit: Fit
    even: Any = None

    def plan(self, data: TaskData) -> TaskMixFit:
        """Validate the data and return the specification applied to it."""
        if not isinstance(self.fit.targets.learner(), Ridge):
            lacking = "the squared loss of regression"
        elif data.form != "wide":
            lacking = "wide data (y with a column for each task)"
        elif any(len(rows) < len(data.X) for rows in data.rows):
            lacking = "a label for every row and task"
        else:
            lacking = "rows of equal weight" if len(np.unique(data.sample_weight)) > 1 else ""
        if lacking:
            raise ValueError(f"per_task=True chooses weights by held-out errors of each task, which needs {lacking}")
        return self._replace(even=self.fit.plan(data))

    def memory(self, n_jobs: int = 1) -> Need:
        """Bound the memory of the fit."""
        need, X = self.even.memory(n_jobs), self.even.data.X
        # Beside the Gram matrices: their products with an inverse, that inverse and eigenvectors.
        n_kernels = X.shape[2] if self.even.kernels is None else len(self.even.kernels)
        extra = 8 * len(X) ** 2 * (n_kernels + 6)
        return Need(need.peak + extra, need.advice)

    def run(self, options: RunOptions) -> Fitted:
        """Choose the weights, then fit with them."""
        return self.run_chosen(options)[0]

    def run_chosen(self, options: RunOptions) -> tuple[Fitted, TaskMixes]:
        """Return the fit, and how its weights were chosen."""
        plan = self.even
        grams, bank = plan.grams()
        shared = grams if plan.fit.device is None else on_device(grams, plan.fit.device)
        assert isinstance(shared, SharedGrams)
        panel = plan.machines
        if not isinstance(panel, MachinePanel):
            panel = MachinePanel.of(panel, plan.data.rows, len(plan.data.X))
        found = choose_mixes(shared.operator, panel.y, has_intercept=panel.has_intercept)
        fitted = plan._replace(penalty=FixedWeights(found.B)).run(options, scaled=(grams, bank))
        fitted.attributes["uncertainty_"] = Uncertainty(
            self._replace(even=None), plan.data, options, classification=False
        )
        return fitted, found


class TaskMixes(NamedTuple):
    """Result of the search."""

    B: np.ndarray  # (K, T) the kernel weights of each task, at cost 1
    mixes: np.ndarray  # (m, K) the mixes, with sum one
    strengths: np.ndarray  # (c,) the strengths
    errors: np.ndarray  # (m, c, T) mean squared leave-one-out errors
    variance: np.ndarray  # (T,) mean squares of the targets, centred if there is an intercept
    choices: np.ndarray  # (T, 2) the positions of the mix and the strength of each task
    by_own: np.ndarray  # (T,) whether the task uses its own weights instead of that mix


def choose_mixes(operator: SharedOperator, Y: np.ndarray, *, has_intercept: bool) -> TaskMixes:
    """Choose the kernel weights of each column of Y (n, T)."""
    targets = TaskTargets(operator, Y, has_intercept, STRENGTHS)
    every, even = np.arange(Y.shape[1]), np.full(operator.n_kernels, 1.0 / operator.n_kernels)
    plain = Spectrum(targets, even)
    reference = plain, _best_strength(targets, targets.errors(plain)[0], every)
    own = targets.own_weights(*reference, every)
    mixes, found = [even], [targets.errors(plain, *reference)]
    groups: Groups = []
    for labels in (np.zeros(len(every), dtype=int), None):
        labels = _groups(own) if labels is None else labels
        start, groups = own, []
        own = own.copy()
        for label in range(labels.max() + 1):
            members = np.flatnonzero(labels == label)
            # The mean of their own mixes; even if they have none.
            known = members[start[:, members].any(axis=0)]
            mix = start[:, known].mean(axis=1) if len(known) else even
            spectrum = Spectrum(targets, mix)
            mixes.append(mix)
            found.append(targets.errors(spectrum, *reference))
            strength = _best_strength(targets, found[-1][0], members)
            groups.append((members, mix, strength))
            own[:, members] = targets.own_weights(spectrum, strength, members)
    # Gains are relative to the variance of the task, because targets may have any units.
    unit = targets.variance
    gains = np.array([unit * expected_gains(gain / unit, error / unit) for _, gain, error in found])
    return _take(targets, own, groups, np.array(mixes), np.array([loss for loss, _, _ in found]), gains)


def _best_strength(targets: TaskTargets, loss: np.ndarray, members: np.ndarray) -> float:
    """Return the best strength for some tasks together, from the losses (c, T) of all tasks."""
    return float(targets.strengths[(loss[:, members] / targets.variance[members]).mean(axis=1).argmin()])


def _take(
    targets: TaskTargets, own: np.ndarray, groups: Groups, mixes: np.ndarray, errors: np.ndarray, gains: np.ndarray
) -> TaskMixes:
    """Choose the weights of each task from own mixes (K, T), mixes (m, K), and errors and gains (m, c, T)."""
    n_tasks, strengths = own.shape[1], targets.strengths
    best = gains.reshape(-1, n_tasks).argmax(axis=0)
    mix, strength = np.divmod(best, len(strengths))
    loss = errors[mix, strength, np.arange(n_tasks)]
    total = mean_strengths(strengths, gains[mix, :, np.arange(n_tasks)].T, loss, len(targets.Y))
    shared = total * mixes[mix].T
    gain, error = gains_of_own_weights(targets, groups, shared)
    share = expected_gains((gain / targets.variance)[np.newaxis], (error / targets.variance)[np.newaxis])[0]
    by_own = (share > _LEAST_GAIN) & (mix > 0) & own.any(axis=0)
    B = np.where(by_own, total * own, shared)
    return TaskMixes(B, mixes, strengths, errors, targets.variance, np.column_stack([mix, strength]), by_own)


def _groups(own: np.ndarray) -> np.ndarray:
    """Return the group (T,) of each task, by its own mix (K, T)."""
    points = np.sqrt(own).T
    count = min(GROUPS, len(points) // TASKS_PER_GROUP, len(np.unique(points.round(6), axis=0)))
    if count < 2:
        return np.zeros(len(points), dtype=int)
    # Imported here, because it takes a sixth of a second and only this function needs it.
    from sklearn.cluster import KMeans

    return np.unique(KMeans(count, n_init=1, random_state=0).fit_predict(points), return_inverse=True)[1]


def expected_gains(gains: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return expected gains (c, T) from measured gains over a reference and their standard errors (c, T).

    True gains of a candidate are assumed to be normal around their mean over tasks, with the variance of the measured
    gains beyond their errors. The expected gain is the posterior mean; with large errors it is the mean over tasks.
    """
    mean = gains.mean(axis=1, keepdims=True)
    variance = np.square(errors)
    between = np.maximum(gains.var(axis=1, keepdims=True) - variance.mean(axis=1, keepdims=True), 0.0)
    total = between + variance
    drawn = (between * gains + variance * mean) / np.maximum(total, np.finfo(float).tiny)
    return np.where(total > 0, drawn, gains)


def mean_strengths(strengths: np.ndarray, gains: np.ndarray, loss: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the strength of each task (T,): the geometric mean of strengths (c,), weighted by their gains (c, T).

    The weights are likelihoods for Gaussian errors with mean square `loss` (T,) on `n_rows` rows.
    """
    weights = 0.5 * n_rows * gains / np.maximum(loss, np.finfo(float).tiny)
    weights = np.exp(weights - weights.max(axis=0))
    return np.exp(np.log(strengths) @ weights / weights.sum(axis=0))


def gains_of_own_weights(targets: TaskTargets, groups: Groups, shared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how much own weights decrease the error of each task (T,), and the standard error of that (T,).

    Leave-one-out errors would be biased, because a task's own weights were found from all of its rows. So own weights
    are found again without a quarter of the rows, and compared on that quarter with the mix that the task chose.
    `shared` (K, T) are the weights of these mixes at cost 1; own weights are scaled to the same sum.
    """
    gains, errors = np.zeros((2, targets.Y.shape[1]))
    n_rows = len(targets.Y)
    if n_rows < _FEWEST:
        return gains, errors
    order = np.random.default_rng(0).permutation(n_rows)
    held, rows = np.sort(order[: int(_HELD * n_rows)]), np.sort(order[int(_HELD * n_rows) :])
    kept, cross = targets.take(rows), targets.operator.entries(held, rows)
    Y, arrays = targets.Y[held] - kept.means, targets.arrays

    def squares(b: np.ndarray, members: np.ndarray) -> Any:
        """Return squared errors (h, o) of some tasks at kernel weights b (K, o) and cost 1."""
        weights = arrays.array(b)
        cost = arrays.array(np.ones((1, len(members))))
        block = Block(kept.operator, weights, arrays.array(kept.Y[:, members]), cost, None, kept.has_intercept)
        solution = solve_block(block, None, _TOL)
        values = 0.0
        for matrix, weight in zip(cross, weights, strict=True):
            values = values + arrays.cast(matrix, single=False) @ (solution.a * weight)
        return (arrays.array(Y[:, members]) - values - solution.intercept) ** 2

    for members, mix, strength in groups:
        found = kept.own_weights(Spectrum(kept, mix), strength, members)
        common = shared[:, members]
        own = np.where(found.any(axis=0), found * common.sum(axis=0), common)

        def compare(where: slice, own: Any = own, common: Any = common, members: Any = members) -> np.ndarray:
            some = members[where]
            fall = squares(common[:, where], some) - squares(own[:, where], some)
            gain = fall.mean(0)
            return arrays.numpy(arrays.xp.stack([gain, ((fall - gain) ** 2).mean(0)]))

        size = arrays.columns(kept.operator.n_rows, kept.operator.n_kernels)
        gains[members], variance = np.concatenate(in_blocks(arrays, len(members), size, compare), axis=1)
        errors[members] = np.sqrt(variance / len(held))
    return gains, errors
