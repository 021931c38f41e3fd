"""Targets, costs, strengths and offsets of any size: the same fit in other units, or a refusal by name."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelkin import AverageRegressor, IMKLClassifier, IMKLRegressor, MKMTRLClassifier, MKMTRLRegressor
from kernelkin.paper import IKLClassifier, IKLRegressor, MKMTFLRegressor, MTRLRegressor
from kernelkin.paper.penalties import RelationPenalty

T, N_TASK = 3, 14
TASKS = np.repeat(np.arange(T), N_TASK)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(T * N_TASK, 3))
Y = np.sin(X[:, 0]) + X[:, 1] * (TASKS == 2) + 0.1 * RNG.normal(size=T * N_TASK)
EPSILON_INSENSITIVE = {"loss": "epsilon_insensitive", "epsilon": 0.1}
# With mu="scale" the strength follows the targets. The cost of the epsilon-insensitive loss is linear in the residuals,
# so that an equal fit needs a cost that is larger in the units of the targets.
REGRESSORS = {
    "MK-MTRL": MKMTRLRegressor(),
    "MK-MTRL, coupled": MKMTRLRegressor(couplings="common"),
    "MK-MTRL, alternating": MKMTRLRegressor(solver="alternating"),
    "MK-MTRL, SVR": MKMTRLRegressor(**EPSILON_INSENSITIVE),
    "IMKL": IMKLRegressor(),
    "IMKL, 1-norm": IMKLRegressor(p=1.0),
    "IMKL, SVR": IMKLRegressor(**EPSILON_INSENSITIVE),
    "AVG": AverageRegressor(),
    "MK-MTFL": MKMTFLRegressor(),
    "MTRL": MTRLRegressor(),
}


def in_units(model, scale):
    """The model whose fit of `scale * y` is that of y, multiplied by `scale`."""
    model = clone(model)
    if getattr(model, "loss", None) != "epsilon_insensitive":
        return model
    return model.set_params(epsilon=model.epsilon * scale, C=model.C * scale)


@pytest.mark.parametrize("name", REGRESSORS)
def test_targets_in_tiny_or_huge_units_give_the_same_fit_in_these_units(name):
    """2^-280 is 5e-85, and 2^280 is 2e84: factors that are exact, so that the fits are the same to rounding."""
    model = clone(REGRESSORS[name]).fit(X, Y, tasks=TASKS)
    shares = model.kernel_weights_ / model.kernel_weights_.sum()
    for scale in (2.0**-280, 2.0**280):
        other = in_units(REGRESSORS[name], scale).fit(X, scale * Y, tasks=TASKS)
        np.testing.assert_allclose(other.predict(X, tasks=TASKS) / scale, model.predict(X, tasks=TASKS), rtol=1e-9)
        np.testing.assert_allclose(other.kernel_weights_ / other.kernel_weights_.sum(), shares, rtol=1e-9)
        assert other.objective_ > 0
        assert other.duality_gap_ / other.objective_ == pytest.approx(model.duality_gap_ / model.objective_, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-84, 1e84])
def test_units_that_are_no_power_of_two_give_the_same_fit(scale):
    model = MKMTRLRegressor(tol=1e-7, max_iter=300).fit(X, Y, tasks=TASKS)
    other = MKMTRLRegressor(tol=1e-7, max_iter=300).fit(X, scale * Y, tasks=TASKS)
    np.testing.assert_allclose(other.predict(X, tasks=TASKS) / scale, model.predict(X, tasks=TASKS), atol=1e-5)
    assert other.duality_gap_ <= 1e-7 * other.objective_


@pytest.mark.parametrize(
    ("estimator", "C"),
    [(MKMTRLClassifier, 1e-90), (MKMTRLClassifier, 2.0**300), (IMKLClassifier, 2.0**-300), (IKLClassifier, 2.0**-30)],
)
def test_a_hinge_loss_of_any_cost_has_the_fit_and_the_gap_of_cost_one_in_its_units(estimator, C):
    """C and mu = C^3 are one model with C = 1 and mu = 1: objective and gap are C times as large."""
    y = Y > 0.3
    plain = estimator(C=1.0, mu=1.0).fit(X, y, tasks=TASKS)
    other = estimator(C=C, mu=C**3).fit(X, y, tasks=TASKS)
    assert 0 <= other.duality_gap_ <= 1e-3 * other.objective_
    assert plain.objective_ - plain.duality_gap_ <= other.objective_ / C <= plain.objective_ * (1 + 1e-3)
    assert (other.objective_ - other.duality_gap_) / C <= plain.objective_
    np.testing.assert_allclose(
        other.decision_function(X, tasks=TASKS), plain.decision_function(X, tasks=TASKS), atol=0.05
    )


def exact_primal(model, y, mu):
    """The objective of a squared-loss fit at its own weights, dual variables and intercepts, in extended precision."""
    penalty = RelationPenalty(T, None, model.shrinkage, 1.0)
    total = np.longdouble(0.5) * mu * penalty.value(model.kernel_weights_.T)
    for t in range(T):
        rows = np.flatnonzero(np.equal(TASKS, t))
        grams = np.array([kernel(X[rows]) for kernel in model.kernels_])
        grams /= np.array([np.diag(gram).mean() for gram in grams])[:, None, None]
        G = np.tensordot(model.kernel_weights_[t], grams, 1).astype(np.longdouble)
        a = model.dual_coef_[t][:, 0].astype(np.longdouble)
        # The best intercept for these functions: the stored one is rounded to the size of the offset.
        residual = y[rows].astype(np.longdouble) - G @ a
        residual -= residual.mean()
        total += a @ G @ a / 2 + model.C * (residual**2).sum() / 2
    return float(total)


@pytest.mark.parametrize("ratio", [1e9, 1e12])
def test_offsets_that_are_huge_beside_the_noise_leave_the_objective_correct(ratio):
    """The offsets of tasks are 1e9 and 1e12 times the noise; what is left of the noise in y is what is fitted."""
    noise = 2.0**-10
    offsets = noise * ratio * np.array([1.0, -3.0, 0.5])[TASKS]
    y = noise * Y + offsets
    left = (y - offsets) / noise  # exact: what rounding has made of the targets
    mu = 0.05
    options = {"tol": 1e-6, "max_iter": 300}
    model = MKMTRLRegressor(mu=mu * noise**2, **options).fit(X, y, tasks=TASKS)
    plain = MKMTRLRegressor(mu=mu, **options).fit(X, left, tasks=TASKS)
    exact = exact_primal(plain, left, mu)
    assert plain.objective_ == pytest.approx(exact, rel=1e-9)
    assert plain.objective_ - plain.duality_gap_ <= model.objective_ / noise**2 * (1 + 1e-9)
    assert (model.objective_ - model.duality_gap_) / noise**2 <= exact * (1 + 1e-9)
    assert model.objective_ / noise**2 == pytest.approx(exact, rel=2e-6)


@pytest.mark.parametrize("estimator", [MKMTRLRegressor, IMKLRegressor, IKLRegressor, MKMTRLClassifier])
def test_a_strength_outside_its_range_is_refused_by_name(estimator):
    y = Y > 0 if estimator is MKMTRLClassifier else Y
    with pytest.raises(ValueError, match=r"mu=5e-324 cannot be distinguished from none for these data \(C about 1, "):
        estimator(mu=5e-324).fit(X, y, tasks=TASKS)


def test_a_cost_that_leaves_no_function_is_refused_by_name():
    with pytest.raises(
        ValueError, match=r"mu=1.0 cannot be distinguished from infinite strength .*\(C about 9.82e-91, "
    ):
        MKMTRLClassifier(C=1e-90).fit(X, Y > 0.3, tasks=TASKS)


@pytest.mark.parametrize("scale", [1e-149, 1e149])
def test_targets_whose_objective_is_no_number_are_refused_by_name(scale):
    with pytest.raises(ValueError, match=r"the spread of the targets about .*: .* rescale y, C or sample_weight"):
        MKMTRLRegressor().fit(X, scale * Y, tasks=TASKS)
