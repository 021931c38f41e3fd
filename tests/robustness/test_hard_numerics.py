"""Hard numerics: a finite answer and an honest gap each time, or a warning that says how far the fit came."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kernelkin import IMKLRegressor, MKMTRLClassifier, MKMTRLRegressor, TwoStageMKMTRLRegressor
from kernelkin.exceptions import ApproximationWarning
from kernelkin.kernels.grams import check_gram
from kernelkin.paper import MKMTFLRegressor, MTRLRegressor
from kernelkin.paper.penalties import RelationPenalty

T, N_TASK = 3, 8
N = T * N_TASK
TASKS = np.repeat(np.arange(T), N_TASK)
EPSILON, SHRINKAGE, TOL = 0.1, 0.1, 1e-3


def _grams():
    """Stacks (N, N, 2) of the kinds that go wrong, of mean diagonal about one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    squares = ((X[:, None] - X) ** 2).sum(axis=-1)
    linear = X @ X.T * N / np.trace(X @ X.T)
    noise = rng.normal(size=(N, N))
    pairs = {
        "plain": (np.exp(-squares), linear),
        "rank one": (np.ones((N, N)), np.outer(X[:, 0], X[:, 0])),
        "nearly singular": (np.exp(-1e-9 * squares), np.exp(-1e-6 * squares)),
        "identity": (np.eye(N), np.exp(-1e6 * squares)),
        "indefinite within rounding": (linear + 1e-9 * (noise + noise.T), np.exp(-1e-9 * squares) - 1e-9 * np.eye(N)),
        "twice the same": (np.exp(-squares), np.exp(-squares)),
        "of scales 1e12 apart": (1e-6 * np.exp(-squares), 1e6 * linear),
    }
    return X[:, 0] + 0.3 * rng.normal(size=N), {kind: np.stack(pair, axis=2) for kind, pair in pairs.items()}


TARGET, GRAMS = _grams()
CLASSES = np.argsort(np.argsort(TARGET)) % N >= N // 2
LOSSES = ("hinge", "squared", "epsilon_insensitive")
# The ends of C and mu.
STRENGTHS = [(1e-8, 1.0), (1e6, 1e-10), (1.0, 1e6)]


def targets(loss):
    return CLASSES if loss == "hinge" else TARGET


def fit(grams, loss, C, mu, **parameters):
    """The model, and what it warned of."""
    estimator = MKMTRLClassifier if loss == "hinge" else MKMTRLRegressor
    how = {"shrinkage": SHRINKAGE, "normalize": None, "tol": TOL, "max_iter": 15} | parameters
    model = estimator("precomputed", loss=loss, C=C, mu=mu, **how)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(grams, targets(loss), tasks=TASKS)
    kinds = [warning.category for warning in caught]
    assert set(kinds) <= {ConvergenceWarning, ApproximationWarning}
    # Indefinite Gram matrices are clipped, and what predictions lose by that is part of the gap.
    assert (ApproximationWarning in kinds) == (model.objective_ > (1 + TOL) * model.history_["primal"][-1])
    return model, [str(warning.message) for warning in caught if warning.category is ConvergenceWarning]


def exact_primal(model, grams, loss, C, mu):
    """The objective at the model's weights, dual variables and intercepts, in extended precision.

    An upper bound on the optimum whatever the model is, so that no honest bound is above it.
    """
    y = np.where(targets(loss), 1.0, -1.0) if loss == "hinge" else TARGET
    total = np.longdouble(0.5) * mu * RelationPenalty(T, None, SHRINKAGE, 1.0).value(model.kernel_weights_.T)
    for t in range(T):
        rows = np.flatnonzero(np.equal(TASKS, t))
        # The problem is that of the nearest positive semi-definite Grams: without them it has no convex dual.
        sound = [check_gram("any", G, known_psd=False) for G in np.moveaxis(grams[np.ix_(rows, rows)], 2, 0)]
        G = np.stack(sound, axis=2).astype(np.longdouble) @ model.kernel_weights_[t].astype(np.longdouble)
        a = model.dual_coef_[t][:, 0].astype(np.longdouble)
        f = G @ a
        residual = y[rows] - f - model.intercept_[t]
        losses = {
            "hinge": np.maximum(0, y[rows] * residual),
            "squared": residual**2 / 2,
            "epsilon_insensitive": np.maximum(0, np.abs(residual) - EPSILON),
        }
        total += a @ f / 2 + C * losses[loss].sum()
    return float(total)


def assert_honest(model, messages, exact):
    primal, bound = model.history_["primal"][-1], model.history_["bound"][-1]
    gap = max(primal - bound, 0.0)
    relative = gap / abs(primal)
    assert np.isfinite([primal, bound]).all()
    assert bound <= primal + 1e-12 * abs(primal)
    assert bound <= exact + 1e-12 * abs(exact)
    # Within tol where no warning is given, and otherwise of the size in the warning: with C=1e8 and mu=1e-10 on nearly
    # singular Grams, rounding moves decision values by more than their residuals, and no digit of a primal is sure.
    assert exact - bound <= (1.1 * TOL * abs(primal) if relative <= TOL else 1.5 * gap)
    excess = model.objective_ - primal
    assert excess >= 0 and model.duality_gap_ == pytest.approx(gap + excess, rel=1e-12)
    assert model.history_["relative_gap"][-1] == relative
    if relative <= TOL:
        assert not messages
    else:
        assert len(messages) == 1
        assert f"The relative duality gap is {relative:.1e}, but tol={TOL:g}" in messages[0]


# Each kind of Grams with two losses, each loss with two of the strengths.
SQUARE = [
    (kind, LOSSES[(i + j) % len(LOSSES)], *STRENGTHS[(i + 2 * j) % len(STRENGTHS)])
    for i, kind in enumerate(GRAMS)
    for j in range(2)
]


@pytest.mark.parametrize(("kind", "loss", "C", "mu"), SQUARE)
def test_hard_grams_and_strengths(kind, loss, C, mu):
    model, messages = fit(GRAMS[kind], loss, C, mu)
    values = (model.decision_function if loss == "hinge" else model.predict)(GRAMS[kind], tasks=TASKS)
    assert np.isfinite(values).all()
    assert np.isfinite(model.task_relationship_).all()
    assert_honest(model, messages, exact_primal(model, GRAMS[kind], loss, C, mu))


@pytest.mark.parametrize("loss", LOSSES)
def test_two_fits_of_one_problem_bound_each_other(loss):
    """Whatever a solver does, its bound is below what another one reaches."""
    grams, C, mu = GRAMS["nearly singular"], 1e4, 1e-3
    found = [fit(grams, loss, C, mu, **how)[0] for how in ({}, {"tol": 1e-6}, {"solver": "alternating"})]
    for one, other in itertools.permutations(found, 2):
        assert one.objective_ - one.duality_gap_ <= other.objective_ * (1 + 1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_tasks_of_two_to_two_thousand_rows(loss):
    rng = np.random.default_rng(0)
    sizes = (2, 3, 10, 100, 2000)
    tasks = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(tasks), 2))
    y = X[:, 0] + 0.1 * rng.normal(size=len(X))
    y[:2] = -1.0, 1.0  # two classes in the task of two rows
    y[2:5] = -1.0, 1.0, 1.0
    estimator = MKMTRLClassifier if loss == "hinge" else MKMTRLRegressor
    y = y > 0 if loss == "hinge" else y
    model = estimator(["linear", "rbf"], loss=loss, mu=1.0, tol=TOL).fit(X, y, tasks=tasks)
    assert 0 <= model.duality_gap_ <= TOL * model.objective_
    values = (model.decision_function if loss == "hinge" else model.predict)(X, tasks=tasks)
    assert np.isfinite(values).all()
    assert model.score_tasks(X, y, tasks=tasks)[4] > 0.9


def test_a_machine_that_cannot_be_solved_ends_with_a_warning():
    """Cubes of features of 1e5, not scaled: sums of 1e30 in which the answer is lost to rounding."""
    rng = np.random.default_rng(0)
    X = 1e5 * rng.normal(size=(N, 3))
    model = MKMTRLClassifier("poly", normalize=None, C=1e3, mu=1.0)
    with pytest.warns(ConvergenceWarning, match="relative duality gap is"):
        model.fit(X, rng.permutation(N) % 2, tasks=TASKS)
    assert np.isfinite(model.decision_function(X, tasks=TASKS)).all()
    assert 0 < model.duality_gap_ < np.inf


@pytest.mark.parametrize(
    "model",
    [MKMTRLRegressor(), IMKLRegressor(), MKMTFLRegressor(), MTRLRegressor(), TwoStageMKMTRLRegressor(n_rounds=200)],
)
def test_strict_floating_point_errors_of_a_user_do_not_stop_a_fit(model):
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(60, 3)), np.repeat(["a", "b", "c"], 20)
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    expected = clone(model).set_params(**seeded(model)).fit(X, y, tasks).predict(50 * X, tasks)
    with np.errstate(all="raise"):
        found = model.set_params(**seeded(model)).fit(X, y, tasks).predict(50 * X, tasks)
    np.testing.assert_array_equal(found, expected)


def seeded(model):
    return {"random_state": 0} if "random_state" in model.get_params() else {}
