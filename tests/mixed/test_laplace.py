"""Laplace's method against the conditions of the mode and against numerical integration."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from kernelkin.kin.losses import Poisson
from kernelkin.mixed.covariance import Layout, Prior
from kernelkin.mixed.likelihoods import Bernoulli, LabelRegression
from kernelkin.mixed.model import MixedModel, Part, flatten
from kernelkin.mixed.terms import JITTER, Level
from mixed.problems import LAPLACE, LIKELIHOODS, make_model, make_rows, terms_of

ROWS = make_rows()


@pytest.mark.parametrize("likelihood", LAPLACE)
@pytest.mark.parametrize("dense", [True, False])
def test_the_gradient_at_the_mode_is_zero(likelihood, dense):
    """At the mode a = inv(K) f is the slope of the log density, row by row."""
    terms = [terms_of(ROWS)[name] for name in ("mean", "level", "linear", "common and own smooth")]
    model = make_model(ROWS, terms, likelihood, dense)
    part = model.parts[0]
    a = model.likelihood.evaluate(Prior(part.blocks(model.terms), model.p_), part, model.noise_)[3].a[:, 0]
    slope = LIKELIHOODS[likelihood].derivatives(ROWS.targets[likelihood], part.state["f"] + part.offset)[0]
    np.testing.assert_allclose(a, ROWS.weight * slope, atol=1e-4)
    assert np.abs(a).max() > 0.1


@pytest.mark.parametrize("name", LAPLACE)
def test_derivatives_of_the_log_density_are_finite_differences(name):
    likelihood, f, h = LIKELIHOODS[name], np.linspace(-3, 3, 7), 1e-4
    y = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    first, second, third = likelihood.derivatives(y, f)
    at = [likelihood.log_density(y, f + k * h) for k in (-1, 0, 1)]
    np.testing.assert_allclose(first, (at[2] - at[0]) / (2 * h), atol=1e-6)
    np.testing.assert_allclose(-second, (at[2] - 2 * at[1] + at[0]) / h**2, atol=1e-5)
    slopes = [likelihood.derivatives(y, f + k * h)[1] for k in (-1, 1)]
    np.testing.assert_allclose(third, (slopes[0] - slopes[1]) / (2 * h), atol=1e-6)


@pytest.mark.parametrize("likelihood, y, close", [(Bernoulli(), (1.0, 0.0), 0.02), (Poisson(), (3.0, 5.0), 0.02)])
def test_the_evidence_is_near_its_integral(likelihood, y, close):
    """Two rows of one group with a level or noise each of small variance, where Laplace's method is nearly exact."""
    terms = [Level(0)] if likelihood.has_noise else [Level(0), Level(1, name="second")]
    model = MixedModel(terms, 0.0, likelihood)
    layout = Layout.dense(np.zeros((2, 0)), [np.zeros(2, int), np.arange(2)])
    model.parts = [Part(layout, np.array(y)[:, None], np.ones(2), 1.0)]
    x = np.log([0.4, 0.3])
    grid = np.linspace(-5, 5, 401)
    A, B = np.meshgrid(grid, grid, indexing="ij")
    K = np.array([[0.7, 0.4], [0.4, 0.7]]) + JITTER * np.eye(2)
    inverse = np.linalg.inv(K)
    prior = np.exp(-0.5 * (inverse[0, 0] * A**2 + inverse[1, 1] * B**2 + 2 * inverse[0, 1] * A * B))
    prior /= 2 * np.pi * np.sqrt(np.linalg.det(K))
    density = np.exp(likelihood.log_density(y[0], A) + likelihood.log_density(y[1], B))
    evidence = (prior * density).sum() * (grid[1] - grid[0]) ** 2
    assert abs(model.objective(x)[0] + np.log(evidence)) < close


def test_the_mean_of_a_log_rate_is_near_its_integral():
    """Three counts of one group, whose log rate has a skewed posterior: the mean is below the mode."""
    y, variance = np.array([0.0, 2.0, 1.0]), 0.7
    model = MixedModel([Level()], 0.0, Poisson())
    model.parts = [Part(Layout.dense(np.zeros((3, 0)), [np.zeros(3, int)]), y[:, None], np.ones(3), 1.0)]
    found, left = model.set_parameters(np.log([variance, 1e-9])).predict(np.zeros((1, 0)), [np.zeros(1, int)])
    f = np.linspace(-8, 5, 5001)
    density = np.exp(-0.5 * f**2 / variance + Poisson().log_density(y[:, None], f).sum(0))
    density /= density.sum()
    assert abs(found[0, 0] - density @ f) < 0.02
    assert density @ f < model.parts[0].state["f"][0] - 0.05
    np.testing.assert_allclose(Poisson().mean(found[0, 0], left[0]), density @ np.exp(f), rtol=0.02)


@pytest.mark.parametrize("name", ["gaussian", "bernoulli"])
def test_a_row_of_weight_two_is_the_row_twice(name):
    codes = np.array([0, 0, 1, 1, 2])
    twice = np.array([0, 1, 1, 2, 3, 4, 4])
    y, weight = np.array([0.0, 1.0, 1.0, 0.0, 1.0]), np.array([1.0, 2.0, 1.0, 1.0, 2.0])
    X = ROWS.X[:5]
    terms = [terms_of(ROWS)[name] for name in ("mean", "level", "linear")]
    likelihood, close = LIKELIHOODS[name], 1e-3
    models = []
    for rows, w in ((np.arange(5), weight), (twice, np.ones(7))):
        model = MixedModel(terms, 0.2, likelihood)
        model.parts = [Part(Layout.dense(X[rows], [codes[rows]]), y[rows][:, None], w, 1.0)]
        models.append(model)
    points = [flatten(models[0].start) + shift for shift in (0.0, -0.7, 0.5)]
    differences = [models[0].objective(x)[0] - models[1].objective(x)[0] for x in points]
    np.testing.assert_allclose(differences, differences[0], atol=close)
    plain = MixedModel(terms, 0.2, likelihood)
    plain.parts = [Part(Layout.dense(X, [codes]), y[:, None], np.ones(5), 1.0)]
    other = [plain.objective(x)[0] - models[1].objective(x)[0] for x in points]
    assert np.ptp(other) > 10 * close
    query = ROWS.X[5:8], [np.array([0, 2, -1])]
    first, second = (model.set_parameters(points[1]).predict(*query) for model in models)
    np.testing.assert_allclose(first[0], second[0], atol=1e-4)
    np.testing.assert_allclose(first[1], second[1], atol=1e-4)


@pytest.mark.parametrize("mean, variance", [(0.0, 1.0), (1.3, 0.2), (-2.0, 6.0)])
def test_probabilities_are_means_over_the_posterior(mean, variance):
    f = np.linspace(-30, 30, 60001)
    density, labels = norm(mean, np.sqrt(variance)).pdf(f) * (f[1] - f[0]), LabelRegression()
    np.testing.assert_allclose(Bernoulli().mean(np.array(mean), np.array(variance)), expit(f) @ density, atol=2e-5)
    given = norm.cdf(f / np.sqrt(labels.softness))
    np.testing.assert_allclose(labels.mean(np.array(mean), np.array(variance)), given @ density, atol=2e-5)
