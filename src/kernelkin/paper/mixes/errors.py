"""Held-out errors of all tasks of wide data at a mix of kernels, and the kernel weights that suit each task.

With G the mix, c the strength and `V = c G + I`, a ridge machine of cost 1 has the dual variables `a = R y`, R the
inverse of V without the direction of the intercept. Where all labels are known, `CompleteTargets` has leave-one-out
residuals `a_i / R_ii` for every task and every strength from one eigendecomposition. Where labels are missing, no
decomposition serves all tasks: `MaskedTargets` deals the labels of each task into folds, and conjugate gradients solve
the machines without a fold, all tasks at once, and all strengths in the time of the largest. Memory is
`O(K n^2 + n T)` in both.

Own weights of tasks are variance components. A task's targets have the covariance `theta_0 I + sum_k theta_k G_k`.
Where V is about that, up to a factor s,

    S theta = r,    S_kl = tr(R G_k R G_l),   r_k = y' R G_k R y,      G_0 = I,

is an unbiased estimate of theta for any V (MINQUE), and a step of Fisher scoring towards the most likely one; the
information about theta/s is S/2. S does not depend on the task, so that K + 1 products give the estimates of all
tasks. They are then drawn towards those of all tasks, by how much each could tell from its own rows, and are not
negative.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from ...decompositions import eigh, least_squares, pseudo_inverse
from ..grams.operator import Arrays, Result, SharedOperator, in_blocks
from ..problems.columns import Block, ratio

_TINY = np.finfo(float).tiny
# Folds that the labels of a task are dealt into.
FOLDS = 5
# Conjugate gradients: iterations, and the norm of a residual, relative to the targets, at which a strength is solved.
# Predictions are wrong by no more than that share of the targets.
_ITERATIONS, _TOL = 300, 5e-3
# The largest strength that is tried at first, how many more at one time, how many beside those that suit tasks, and the
# share of the tasks at either end that does not count.
_FIRST_LIMIT, _MORE, _MARGIN, _EXTREME = 10.0, 4, 2, 0.05
# So many labels count as spread like those of all tasks: the spread of few is uncertain.
_PRIOR_LABELS = 10
# Sets of rows for which the information about components is computed, at most.
_PATTERNS = 4
# Bounded least squares: up to so many columns one after the other, which is exact; sweeps of coordinate descent over
# more, and the change relative to the largest weight at which they end.
_FEW_COLUMNS, _SWEEPS, _CHANGE = 200, 500, 1e-6
# Traces of products are sums over so many rows at one time.
_TRACE_ROWS = 128
# The least share of noise in the variance of a task, so that strengths stay finite, and the least spread over tasks, as
# a share of the mean: what many tasks say of each other is never certain.
_LEAST_NOISE, _LEAST_SPREAD = 1e-3, 1e-2


class Errors(NamedTuple):
    """Mean squared held-out errors (c, T) at one mix, their gain on a reference, and the standard error of the gain."""

    loss: np.ndarray
    gain: np.ndarray
    error: np.ndarray


class TaskTargets:
    """The targets Y (n, T) of all tasks on shared rows, zero where `mask` (n, T) is, and strengths (c,), ascending.

    Subclasses have `decompose`, from a mix (K,) of the kernels, of sum one, to what the other methods take; `losses`
    (c, T), mean squares of the held-out errors; `reference`, a mix and strength for others to be compared with;
    `errors` beside those of a reference; and `own_weights` (K, members) of some tasks, by a step from a mix.
    """

    def __init__(
        self,
        operator: SharedOperator,
        Y: np.ndarray,
        has_intercept: bool,
        strengths: np.ndarray,
        mask: np.ndarray | None = None,
    ) -> None:
        self.operator, self.has_intercept, self.strengths, self.mask = operator, has_intercept, strengths, mask
        self.n_labels: Any = len(Y) if mask is None else np.maximum(mask.sum(axis=0, dtype=np.float64), 1.0)
        self.means = Y.sum(axis=0) / self.n_labels if has_intercept else np.zeros(Y.shape[1])
        self.Y = Y - self.means if mask is None else mask * (Y - self.means)

    @property
    def arrays(self) -> Arrays:
        return self.operator.arrays

    @cached_property
    def variance(self) -> np.ndarray:
        """(T,) mean squares of the targets."""
        return np.maximum(np.square(self.Y).sum(axis=0) / self.n_labels, _TINY)

    def take(self, rows: np.ndarray) -> Any:
        """The targets at some rows."""
        mask = None if self.mask is None else self.mask[rows]
        return type(self)(self.operator.take(rows), self.Y[rows], self.has_intercept, self.strengths, mask)

    def mix_matrix(self, mix: np.ndarray) -> Any:
        """(n, n) the mix (K,) of the kernels."""
        return sum(float(mix[k]) * self.operator.matrix(k) for k in np.flatnonzero(mix).tolist())

    def side_by_side(self, work: Callable[[slice], Result], n_tasks: int, n_arrays: int) -> np.ndarray:
        """Apply `work` to blocks of columns; `n_arrays` is the number of arrays per column."""
        size = self.arrays.columns(self.operator.n_rows, n_arrays)
        return np.concatenate(in_blocks(self.arrays, n_tasks, size, work), axis=-1)

    def table(self, rows: list[Any]) -> np.ndarray:
        """Stack arrays of the operator's device into a NumPy array."""
        return self.arrays.numpy(self.arrays.xp.stack(rows))


class Spectrum:
    """A mix (K,) of kernels, centred where there is an intercept: eigenvalues (n,) and eigenvectors (n, n)."""

    def __init__(self, targets: TaskTargets, mix: np.ndarray) -> None:
        gram, arrays = targets.mix_matrix(mix), targets.arrays
        if targets.has_intercept:
            gram = gram - gram.mean(0) - gram.mean(1)[:, None] + gram.mean()
        values, self.vectors = arrays.eigh(gram)
        self.mix, self.values = mix, arrays.xp.where(values > 0, values, 0.0 * values)
        # What the direction of the intercept takes from each entry of the inverse.
        self.free = 1.0 / len(values) if targets.has_intercept else 0.0

    def duals(self, turned: Any, strength: float) -> Any:
        """R Y (n, o), from Y in the basis of the eigenvectors."""
        return self.vectors @ (turned / (strength * self.values + 1.0)[:, None])

    def left_out(self, turned: Any, strength: float) -> Any:
        """Leave-one-out residuals (n, o), from Y in the basis of the eigenvectors."""
        diagonal = (self.vectors * self.vectors) @ (1.0 / (strength * self.values + 1.0)) - self.free
        return self.duals(turned, strength) / diagonal[:, None]

    def inverse(self, strength: float) -> Any:
        """R (n, n)."""
        return (self.vectors / (strength * self.values + 1.0)) @ self.vectors.T - self.free


class CompleteTargets(TaskTargets):
    """Targets of which all labels are known: errors are leave-one-out errors."""

    def decompose(self, mix: np.ndarray) -> Spectrum:
        return Spectrum(self, mix)

    def losses(self, spectrum: Spectrum) -> np.ndarray:
        def work(Y: Any) -> np.ndarray:
            turned = spectrum.vectors.T @ Y
            return self.table([(spectrum.left_out(turned, c) ** 2).mean(0) for c in self.strengths.tolist()])

        return self._columns(work)

    def reference(self, spectrum: Spectrum, strength: float) -> tuple[Spectrum, float]:
        return spectrum, strength

    def errors(self, spectrum: Spectrum, reference: tuple[Spectrum, float]) -> Errors:
        known, strength = reference

        def work(Y: Any) -> np.ndarray:
            turned, rows = spectrum.vectors.T @ Y, []
            base = known.left_out(known.vectors.T @ Y, strength) ** 2
            for c in self.strengths.tolist():
                loss = spectrum.left_out(turned, c) ** 2
                gain = (base - loss).mean(0)
                rows += [loss.mean(0), gain, ((base - loss - gain) ** 2).mean(0)]
            return self.table(rows)

        table = self._columns(work)
        return Errors(table[0::3], table[1::3], np.sqrt(table[2::3] / len(self.Y)))

    def own_weights(self, spectrum: Spectrum, strength: float, members: np.ndarray) -> np.ndarray:
        moments = self._columns(lambda Y: self.moments(spectrum, strength, Y), members)
        S = information(self.operator, spectrum.inverse(strength))
        return component_weights(S, moments, self.n_labels - (1 if self.has_intercept else 0))

    def moments(self, spectrum: Spectrum, strength: float, Y: Any) -> np.ndarray:
        """Columns of Y (n, o) -> (K + 2, o): r, and then y' R y."""
        turned = spectrum.vectors.T @ Y
        a = spectrum.duals(turned, strength)
        forms = [(a * a).sum(0)]
        forms += [(a * (self.operator.matrix(k) @ a)).sum(0) for k in range(self.operator.n_kernels)]
        forms.append((turned * turned / (strength * spectrum.values + 1.0)[:, None]).sum(0))
        return self.table(forms)

    def _columns(self, work: Callable[[Any], np.ndarray], members: np.ndarray | None = None) -> np.ndarray:
        """Apply `work` to the columns of Y, or to those of some tasks."""
        every = np.arange(self.Y.shape[1]) if members is None else members

        def some(where: slice) -> np.ndarray:
            return work(self._copy[:, where] if members is None else self._copy[:, self.arrays.array(every[where])])

        return self.side_by_side(some, len(every), self.operator.n_kernels)

    @cached_property
    def _copy(self) -> Any:
        """Y where the operator is."""
        return self.arrays.array(self.Y)


class MaskedTargets(TaskTargets):
    """Targets of which labels are missing: errors are out-of-fold errors, by conjugate gradients."""

    def with_useful_strengths(self) -> MaskedTargets:
        """Return the targets with only the useful strengths: those best for tasks at equal weights, and neighbours.

        Large strengths need many iterations and are only tried if smaller ones are not enough.
        """
        plain = self.decompose(np.full(self.operator.n_kernels, 1.0 / self.operator.n_kernels))
        every, count = self.strengths, int((self.strengths <= _FIRST_LIMIT).sum())
        while True:
            losses = self._with(every[: max(count, 1)]).losses(plain)
            least, most = np.quantile(losses.argmin(axis=0), [_EXTREME, 1.0 - _EXTREME])
            if most < count - 1 or count >= len(every):
                break
            count += _MORE
        return self._with(every[max(int(least) - _MARGIN, 0) : int(np.ceil(most)) + _MARGIN + 1])

    def _with(self, strengths: np.ndarray) -> MaskedTargets:
        return MaskedTargets(self.operator, self.Y, self.has_intercept, strengths, self.mask)

    def decompose(self, mix: np.ndarray) -> SharedOperator:
        """The mix as an operator, in single precision."""
        return SharedOperator(self.arrays, self.arrays.cast(self.mix_matrix(mix), single=True)[None])

    def losses(self, matrix: SharedOperator) -> np.ndarray:
        def work(where: slice) -> np.ndarray:
            return self.arrays.numpy(self._squares(matrix, where, self.strengths).sum(1))

        return self.side_by_side(work, self.Y.shape[1], len(self.strengths)) / self.n_labels

    def reference(self, matrix: SharedOperator, strength: float) -> Any:
        """Squared out-of-fold errors (n, T) where the operator is, zero where there is no label."""

        def work(where: slice) -> Any:
            return self._squares(matrix, where, np.array([strength]))[0]

        size = self.arrays.columns(self.operator.n_rows, len(self.strengths))
        return self.arrays.xp.hstack(in_blocks(self.arrays, self.Y.shape[1], size, work))

    def errors(self, matrix: SharedOperator, reference: Any) -> Errors:
        def work(where: slice) -> np.ndarray:
            counts, squares = self._rough(self.n_labels[where]), self._squares(matrix, where, self.strengths)
            fall = reference[:, where] - squares
            gain = fall.sum(1) / counts
            spread = (self._on_device[1][:, where] * (fall - gain[:, None, :]) ** 2).sum(1) / counts
            return self.table([squares.sum(1) / counts, gain, spread])

        loss, gain, variance = self.side_by_side(work, self.Y.shape[1], len(self.strengths))
        # Variances of few labels are drawn towards those of all tasks.
        n, relative = self.n_labels, variance / self.variance**2
        pooled = (relative @ n / n.sum())[:, np.newaxis]
        steady = (n * relative + _PRIOR_LABELS * pooled) / (n + _PRIOR_LABELS) * self.variance**2
        return Errors(loss, gain, np.sqrt(steady / n))

    def own_weights(self, matrix: SharedOperator, strength: float, members: np.ndarray) -> np.ndarray:
        def work(where: slice) -> np.ndarray:
            block = self.block(matrix, self.arrays.array(members[where]))
            a = solutions_at_strengths(block, np.array([strength]))[0] / strength
            images = self.operator.images(a)
            return self.table([(a * a).sum(0), *((a * images).sum(1)), (block.y * a).sum(0)])

        moments = self.side_by_side(work, len(members), self.operator.n_kernels)
        S, classes = self._information(matrix, strength, members)
        return component_weights(S, moments, self.n_labels[members] - (1 if self.has_intercept else 0), classes)

    def _information(
        self, matrix: SharedOperator, strength: float, members: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Matrices S of a few sets of rows (q, K + 1, K + 1), and which of them each member has.

        Where there are more patterns of labels, a member has that of one with about as many labels.
        """
        assert self.mask is not None
        packed = np.packbits(self.mask[:, members].T > 0, axis=1)
        _, first, classes = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        classes = classes.reshape(-1)
        if len(first) > _PATTERNS:
            runs = np.array_split(np.argsort(self.n_labels[members], kind="stable"), _PATTERNS)
            first, classes = np.array([run[len(run) // 2] for run in runs]), np.empty(len(members), dtype=np.intp)
            for number, run in enumerate(runs):
                classes[run] = number
        found = []
        for member in members[first].tolist():
            rows = np.flatnonzero(self.mask[:, member])
            R = self._inverse(matrix.take(rows).matrix(0), strength)
            found.append(information(self.operator.take(rows), R))
        return np.array(found), classes

    def _inverse(self, gram: Any, strength: float) -> Any:
        """R (n, n), from a mix (n, n): the inverse of V without the direction of the intercept."""
        arrays, n = self.arrays, len(gram)
        R = arrays.inverses((strength * gram + arrays.diagonals(arrays.array(np.ones((1, n))))[0])[None])[0]
        if not self.has_intercept:
            return R
        sums = R.sum(1)
        return R - sums[:, None] * sums[None, :] / sums.sum()

    def _squares(self, matrix: SharedOperator, where: slice, strengths: np.ndarray) -> Any:
        """(c, n, o) squared out-of-fold errors of columns at ascending strengths; zero where there is no label."""
        xp, total = self.arrays.xp, None
        Y, shown, dealt = (values[:, where] for values in self._on_device)
        for number in range(FOLDS):
            block = self.block(matrix, where, number)
            held = shown * (dealt == number)
            count, parts = block.mask.sum(0), []
            for x in solutions_at_strengths(block, strengths[::-1]):
                values = Y - block.apply(x)
                if self.has_intercept:
                    values = values - (block.mask * values).sum(0) / xp.where(count > 0, count, count + 1.0)
                parts.append(held * values**2)
            total = xp.stack(parts[::-1]) if total is None else total + xp.stack(parts[::-1])
        return total

    def block(self, matrix: SharedOperator, columns: Any, without: int | None = None) -> Block:
        """Columns of Y, a slice or positions where the operator is, at one mix; without the labels of a fold."""
        Y, mask, dealt = (values[:, columns] for values in self._on_device)
        if without is not None:
            mask = mask * (dealt != without)
        return Block(matrix, 0.0 * mask[:1] + 1.0, mask * Y, mask, mask, self.has_intercept)

    def _rough(self, values: np.ndarray) -> Any:
        """Values in single precision where the operator is."""
        return self.arrays.cast(self.arrays.array(values), single=True)

    @cached_property
    def _on_device(self) -> tuple[Any, Any, Any]:
        """(n, T) each, where the operator is: labels, whether there is one, and its fold."""
        assert self.mask is not None
        return self._rough(self.Y), self._rough(self.mask), self.arrays.array(self.folds)

    @cached_property
    def folds(self) -> np.ndarray:
        """(n, T) the fold of each label: those of a task are dealt out in a random order of the rows."""
        assert self.mask is not None
        order = np.random.default_rng(0).permutation(len(self.Y))
        dealt = np.empty(self.mask.shape, dtype=np.int8)
        dealt[order] = (np.cumsum(self.mask[order], axis=0, dtype=np.int64) % FOLDS).astype(np.int8)
        return dealt


def solutions_at_strengths(block: Block, strengths: np.ndarray) -> Any:
    """x (c, n, o) of the columns of a block of one mix, at strengths (c,) in descending order, in single precision.

    By conjugate gradients. At the strength c a machine on the mix G solves `P (G + I/c) P x = P y`, P leaving out rows
    without a label and, where there is an intercept, the mean. Systems that differ in c alone differ by a multiple of
    the identity, so that they share their Krylov space (Jegerlehner, 1996): all strengths take the products with G of
    the largest one.
    """
    arrays, residual = block.arrays, block.project(block.y)
    first, shifts = 1.0 / float(strengths[0]), (1.0 / strengths - 1.0 / strengths[0]).reshape(-1, 1)
    shifts = arrays.cast(arrays.array(shifts), single=True)
    x = arrays.xp.stack([0.0 * residual for _ in strengths])
    directions = x + residual
    square = goal = block.sums(residual * residual)
    # Residuals at smaller strengths are multiples of those at the first: now, and one iteration before.
    multiple = before = 0.0 * shifts + 0.0 * square + 1.0
    step_before, turn = 0.0 * square + 1.0, 0.0 * square
    for _ in range(_ITERATIONS):
        m = len(multiple)
        image = block.project(block.apply(directions[0])) + first * directions[0]
        step = ratio(arrays, square, block.sums(directions[0] * image))
        residual = residual - step * image
        square, old = block.sums(residual * residual), square
        below = step_before * before * (1.0 + step * shifts[:m]) + step * turn * (before - multiple)
        after = ratio(arrays, multiple * before * step_before, below)
        share, turn = ratio(arrays, after, multiple), ratio(arrays, square, old)
        x[:m] += (step * share)[:, None, :] * directions[:m]
        directions[:m] *= (turn * share**2)[:, None, :]
        directions[:m] += after[:, None, :] * residual
        # Smaller strengths are solved first, and are left as they are.
        m = int(((after**2 * square > _TOL**2 * goal).sum(1) > 0).sum())
        if m == 0:
            break
        before, multiple, step_before = multiple[:m], after[:m], step
    return x


def information(operator: SharedOperator, inverse: Any) -> np.ndarray:
    """S (K + 1, K + 1), noise first, from R (n, n)."""
    arrays = operator.arrays
    products = [inverse, *(operator.matrix(k) @ inverse for k in range(operator.n_kernels))]
    S = np.zeros((len(products), len(products)))
    for first in range(0, len(inverse), _TRACE_ROWS):
        some = slice(first, first + _TRACE_ROWS)
        rows = arrays.xp.stack([product[some] for product in products]).reshape(len(products), -1)
        columns = arrays.xp.stack([product[:, some].T for product in products]).reshape(len(products), -1)
        S += arrays.numpy(rows @ columns.T)
    return 0.5 * (S + S.T)


def component_weights(S: np.ndarray, moments: np.ndarray, n_free: Any, classes: np.ndarray | None = None) -> np.ndarray:
    """Kernel weights (K, T) at cost 1, from S, and r and y' R y of all tasks (K + 2, T).

    `n_free` are the rows of each task, less one for an intercept; S and `classes` are those of `drawn_together`.
    """
    scale = moments[-1] / np.maximum(n_free, 1)
    theta = drawn_together(S, moments[:-1] / np.maximum(scale, _TINY), classes)
    return theta[1:] / np.maximum(theta[0], _LEAST_NOISE * theta.sum(axis=0))


def drawn_together(S: np.ndarray, moments: np.ndarray, classes: np.ndarray | None = None) -> np.ndarray:
    """Components theta >= 0 (K + 1, T) from S and r (K + 1, T), drawn towards those of all tasks.

    S is (K + 1, K + 1), or (q, K + 1, K + 1) where `classes` (T,) say which of them is that of a task. A task's own
    estimate has the covariance 2 inv(S). What estimates spread beyond that is the spread of the tasks.
    """
    if classes is None:
        S, classes = S[np.newaxis], np.zeros(moments.shape[1], dtype=np.intp)
    # Components that rows cannot distinguish have a singular S.
    covariances = [pseudo_inverse(each, cutoff=1e-10) for each in S]
    estimates, shares = np.empty_like(moments), np.bincount(classes, minlength=len(S)) / len(classes)
    for number, covariance in enumerate(covariances):
        estimates[:, classes == number] = covariance @ moments[:, classes == number]
    mean = _bounded_least_squares(np.tensordot(shares, S, 1), moments.mean(axis=1, keepdims=True))
    spread = estimates.var(axis=1, ddof=1) if estimates.shape[1] > 1 else np.full(len(mean), np.inf)
    chance = 2.0 * np.tensordot(shares, [np.diag(each) for each in covariances], 1)
    between = np.maximum(spread - chance, np.square(_LEAST_SPREAD * mean[:, 0] + 1e-12))
    prior, theta = np.diag(1.0 / between), np.empty_like(moments)
    for number, own in enumerate(S):
        right = 0.5 * moments[:, classes == number] + prior @ mean
        theta[:, classes == number] = _bounded_least_squares(0.5 * own + prior, right)
    return theta


def _bounded_least_squares(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The minimum of x' H x / 2 - g' x over x >= 0, for each column of g (K, T)."""
    diagonal = np.maximum(np.diag(H), _TINY)
    if g.shape[1] > _FEW_COLUMNS:
        x = np.maximum(least_squares(H, g), 0.0)
        for _ in range(_SWEEPS):
            largest = 0.0
            for k in range(len(H)):
                new = np.maximum(x[k] + (g[k] - H[k] @ x) / diagonal[k], 0.0)
                largest = max(largest, float(np.abs(new - x[k]).max()))
                x[k] = new
            if largest <= _CHANGE * float(x.max(initial=0.0)):
                break
        return x
    # |A x - d|^2 has the same minimum where A'A = H and A'd = g. Variables are scaled to a diagonal of ones, for their
    # entries may differ by many orders of magnitude.
    scale = 1.0 / np.sqrt(diagonal)
    values, vectors = eigh(scale[:, np.newaxis] * H * scale)
    kept = values > 1e-12 * len(H)
    roots, basis = np.sqrt(values[kept])[:, np.newaxis], vectors[:, kept].T
    wanted = basis @ (scale[:, np.newaxis] * g) / roots
    found = [nnls(roots * basis, column, maxiter=100 * len(H))[0] for column in wanted.T]
    return scale[:, np.newaxis] * np.column_stack(found)
