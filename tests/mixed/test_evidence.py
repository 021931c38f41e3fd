"""Evidence, posterior and leave-one-out values against formulas that are written out here."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kernelkin.mixed.model import STEEPNESS, flatten
from kernelkin.mixed.terms import JITTER
from mixed.problems import (
    BY_FEATURES,
    LIKELIHOODS,
    SIZES,
    finite_differences,
    make_model,
    make_rows,
    task_values,
    terms_of,
)

ROWS = make_rows()
EXACT = ("mean", "level", "level of another grouping", "linear", "slopes", "common and own smooth", "additive")
TESTED = (*EXACT, "given kernel", "task features")


def covariance(p, X, groups, Y, other, kernel):
    """The covariance (q, m) of the terms `TESTED` by their definitions, row by row."""

    def matern(r2):
        r = np.sqrt(5 * r2)
        return (1 + r + r**2 / 3) * np.exp(-r)

    e = {name: {key: np.exp(value) for key, value in part.items()} for name, part in p.items()}
    M, K = task_values(len(SIZES)), np.zeros((len(X), len(Y)))
    for i, (x, s, u) in enumerate(zip(X, *groups, strict=True)):
        for j, (y, t, v) in enumerate(zip(Y, *other, strict=True)):
            same = float(s == t and s >= 0)
            k = 100.0 + e["level"]["variance"][0] * same + e["second"]["variance"][0] * (u == v and u >= 0)
            k += (e["linear"]["variances"] + same * e["slopes"]["variances"]) @ (x * y)
            smooth, tasks = e["smooth"], e["task features"]
            k += (smooth["common"][0] + same * smooth["own"][0]) * matern((((x - y) / smooth["lengths"]) ** 2).sum())
            each = matern(((x - y) / e["additive"]["lengths"]) ** 2)
            k += e["additive"]["variances"] @ each
            k += (e["kernel"]["common"][0] + same * e["kernel"]["own"][0]) * kernel[i, j]
            if s >= 0 and t >= 0:
                curve = matern((((x - y) / tasks["lengths"]) ** 2).sum())
                k += M[s, t] * (tasks["level"][0] + tasks["smooth"][0] * curve)
            K[i, j] = k
    return K


def whole_model(**options):
    terms = terms_of(ROWS)
    return make_model(ROWS, [terms[name] for name in TESTED], **options)


def prior_penalty(model):
    far, spread = 0.0, 0.0
    for name, part in model.start.items():
        for key, value in part.items():
            p = model.p_[name][key]
            far += ((p - value) ** 2).sum()
            spread += ((p - p.mean()) ** 2).sum()
    return model.rho * (far + spread)


def test_the_dense_evidence_is_the_density_of_a_normal_distribution():
    model = whole_model(weights=False)
    N = len(ROWS.X)
    K = covariance(model.p_, ROWS.X, ROWS.groups, ROWS.X, ROWS.groups, ROWS.kernel)
    K += (model.noise_ + JITTER) * np.eye(N)
    density = multivariate_normal(np.zeros(N), K).logpdf(ROWS.targets["gaussian"]) + 0.5 * N * np.log(2 * np.pi)
    np.testing.assert_allclose(model.objective(model.x_)[0], prior_penalty(model) - density, rtol=1e-10)


def test_posterior_means_and_variances_are_the_dense_formula():
    model = whole_model()
    q, rng = 9, np.random.default_rng(5)
    X, kernel = rng.normal(size=(q, 2)), 0.1 * rng.normal(size=(q, len(ROWS.X)))
    groups = np.array([0, 1, 2, 3, 4, 5, 0, 1, 2]), np.array([0, 1, 2, 3, -1, 0, 1, 2, 3])
    K = covariance(model.p_, ROWS.X, ROWS.groups, ROWS.X, ROWS.groups, ROWS.kernel)
    S = K + np.diag(model.noise_ / ROWS.weight + JITTER)
    C = covariance(model.p_, X, groups, ROWS.X, ROWS.groups, kernel)
    # A group of the second grouping that is not known has a level, with the variance of all.
    prior = np.diag(covariance(model.p_, X, (groups[0], np.zeros(q, int)), X, (groups[0], np.zeros(q, int)), np.eye(q)))
    mean, variance = model.predict(X, groups, (kernel,))
    np.testing.assert_allclose(mean[:, 0], C @ np.linalg.solve(S, ROWS.targets["gaussian"]), rtol=1e-8)
    np.testing.assert_allclose(variance, prior - (C * np.linalg.solve(S, C.T).T).sum(1), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dense", [True, False])
def test_contributions_of_single_terms_sum_to_the_whole(dense):
    terms = [terms_of(ROWS)[name] for name in ("mean", *BY_FEATURES)]
    model = make_model(ROWS, terms, dense=dense)
    X, groups = np.random.default_rng(5).normal(size=(4, 2)), (np.array([0, 3, 5, -1]), np.array([0, 1, -1, 2]))
    each = [model.predict(X, groups, terms=[term.name], variance=False)[0] for term in terms]
    whole = model.predict(X, groups, variance=False)[0]
    assert min(np.abs(part).max() for part in each) > 1e-6
    np.testing.assert_allclose(sum(each), whole, atol=1e-8)


def test_a_group_that_is_not_known_has_the_prior_variance_of_its_own_terms():
    terms = terms_of(ROWS)
    model = make_model(ROWS, [terms["mean"], terms["level"], terms["slopes"], terms["own smooth"]])
    X = np.array([[0.3, -1.0]])
    second = np.array([0])
    own = ["level", "slopes", "own only"]
    mean, variance = model.predict(X, (np.array([-1]), second), terms=own)
    p = {name: {key: np.exp(v) for key, v in part.items()} for name, part in model.p_.items()}
    expected = p["level"]["variance"] + p["slopes"]["variances"] @ X[0] ** 2 + p["own only"]["own"]
    assert mean[0, 0] == 0
    np.testing.assert_allclose(variance, expected)
    assert model.predict(X, (np.array([5]), second), terms=own)[1] < variance


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("dense", [True, False])
def test_gradients_of_the_objective_are_finite_differences(likelihood, dense):
    terms = terms_of(ROWS, landmarks=ROWS.X[:6], knots=(ROWS.X[:4, 0], ROWS.X[:5, 1]))
    names = EXACT if dense else ("mean", "level", "level of another grouping", "slopes", "common and own smooth")
    model = make_model(ROWS, [terms[name] for name in names], likelihood, dense)
    value, gradient = model.objective(model.x_)
    assert np.isfinite(value)
    expected = finite_differences(lambda x: model.objective(x)[0], model.x_)
    np.testing.assert_allclose(gradient, expected, atol=2e-5)


def test_small_variances_of_slopes_and_smooths_are_likely_where_the_likelihood_says_so():
    """Against the prior written out: below their initial values, variances of optional terms gain linearly."""
    terms = [
        terms_of(ROWS)[name] for name in ("mean", "level", "linear", "slopes", "common and own smooth", "additive")
    ]
    model = make_model(ROWS, terms, "poisson")
    model.set_parameters(flatten(model.start) + np.random.default_rng(3).normal(size=len(model.x_)))
    expected, c = 0.0, model.likelihood.sparsity
    assert c > 0
    for name, part in model.start.items():
        for key, start in part.items():
            p = model.p_[name][key]
            if name in ("slopes", "smooth", "additive") and key != "lengths":
                expected += c * (p - start).sum() + model.rho * (np.maximum(p - start, 0.0) ** 2).sum()
            else:
                expected += model.rho * (((p - start) ** 2).sum() + ((p - p.mean()) ** 2).sum())
    with_prior = model.objective(model.x_)[0]
    model.rho = model.sparsity = 0.0
    assert with_prior - model.objective(model.x_)[0] == pytest.approx(expected)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_blocks_with_all_rows_as_landmarks_are_the_dense_model(likelihood):
    terms = [terms_of(ROWS)[name] for name in ("mean", *BY_FEATURES)]
    exact, blocks = (make_model(ROWS, terms, likelihood, dense) for dense in (True, False))
    value, gradient = exact.objective(exact.x_)
    np.testing.assert_allclose(blocks.objective(exact.x_)[0], value, atol=1e-3)
    np.testing.assert_allclose(blocks.objective(exact.x_)[1], gradient, atol=2e-3)
    X = np.random.default_rng(5).normal(size=(9, 2))
    groups = np.array([0, 1, 2, 3, 4, 5, -1, 0, 0]), np.array([0, 1, 2, 3, -1, -1, 0, 0, 1])
    for found, expected in zip(blocks.predict(X, groups), exact.predict(X, groups), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("dense", [True, False])
def test_leave_one_out_values_are_those_of_refits_at_fixed_parameters(dense):
    terms = [terms_of(ROWS)[name] for name in ("mean", "level", "linear", "slopes", "common and own smooth")]
    model = make_model(ROWS, terms, dense=dense)
    found = model.leave_one_out()[:, 0]
    for i in (0, 7, len(ROWS.X) - 1):
        rest = np.delete(np.arange(len(ROWS.X)), i)
        less = make_rows()
        less.X, less.weight = ROWS.X[rest], ROWS.weight[rest]
        less.groups = tuple(part[rest] for part in ROWS.groups)
        less.targets, less.kernel = {"gaussian": ROWS.targets["gaussian"][rest]}, ROWS.kernel[np.ix_(rest, rest)]
        refit = make_model(less, terms, dense=dense).set_parameters(model.x_)
        expected = refit.predict(ROWS.X[[i]], [part[[i]] for part in ROWS.groups], variance=False)[0]
        np.testing.assert_allclose(found[i], expected[0, 0], rtol=1e-6, atol=1e-6)


def test_the_fit_lowers_the_objective_to_a_point_with_little_slope():
    terms = [terms_of(ROWS)[name] for name in ("mean", "level", "linear")]
    model = make_model(ROWS, terms)
    start = model.objective(flatten(model.start))[0]
    model.fit(model.parts, evaluations=200)
    assert model.value_ < start
    assert model.n_evaluations_ < 200
    assert np.abs(model.objective(model.x_)[1]).max() <= STEEPNESS
