"""The models that Newton steps minimise: they touch the values they stand for, and stay convex."""

import numpy as np
import pytest

from kernelkin.paper.penalties import RelationPenalty
from kernelkin.paper.solvers.joint import model_at, secant_hessian
from tasks import make_problem, random_problem

T, K = 3, 4


def evaluations(loss, count=4):
    """Evaluations at a few points near each other, and the problem."""
    problem = make_problem(*random_problem(0, loss, T, K), loss, RelationPenalty(T), 2.0, 0.5)
    rng = np.random.default_rng(0)
    B = rng.uniform(0.2, 1.0, size=(K, T))
    path = [B * rng.uniform(0.9, 1.1, size=B.shape) for _ in range(count)]
    return [problem.evaluate(weights, tol=1e-13, curved=True) for weights in path], problem


def flattened(evaluation):
    """The same without curvature: as of machines with several components."""
    return type(evaluation)(**{**vars(evaluation), "curvature": None})


def models(loss):
    found, _ = evaluations(loss)
    return {"own": model_at(found[-1:]), "secant": model_at([flattened(evaluation) for evaluation in found])}, found


@pytest.mark.parametrize(("loss", "kind"), [("hinge", "own"), ("squared", "secant"), ("epsilon_insensitive", "own")])
def test_models_are_convex_and_have_the_value_and_slope_of_their_evaluation(loss, kind):
    # Value and slope at the evaluation are its own.
    made, found = models(loss)
    value, gradient = made[kind](found[-1].B)
    assert value == found[-1].loss
    np.testing.assert_array_equal(gradient, -found[-1].Q)

    # Gradient is the slope of the value.
    made, found = models(loss)
    model, B, step = made[kind], 1.5 * found[-1].B, 1e-6
    slopes = np.empty_like(B)
    for index in np.ndindex(*B.shape):
        move = np.zeros_like(B)
        move[index] = step
        slopes[index] = (model(B + move)[0] - model(B - move)[0]) / (2 * step)
    np.testing.assert_allclose(model(B)[1], slopes, atol=1e-6 * np.abs(slopes).max())

    # Models are convex on all weights.
    made, _ = models(loss)
    rng = np.random.default_rng(1)
    for _ in range(50):
        one, two = (10 ** rng.uniform(-3, 2) * rng.uniform(size=(K, T)) for _ in range(2))
        ends = [made[kind](B)[0] for B in (one, two)]
        assert made[kind](0.5 * (one + two))[0] <= np.mean(ends) + 1e-9 * np.abs(ends).max()


@pytest.mark.parametrize("scale", [1e-2, 1e-1])
def test_the_error_of_the_model_is_of_third_order(scale):
    """Ridge machines are smooth: at a tenth of the distance the error is a thousandth."""
    (found,), problem = evaluations("squared", 1)
    model = model_at([found])
    D = np.random.default_rng(2).normal(size=found.B.shape) * found.B

    def error(size):
        B = found.B + size * D
        return abs(model(B)[0] - problem.evaluate(B).loss)

    assert error(0.1 * scale) <= 2e-3 * error(scale)


def test_secants_are_those_of_the_last_step():
    found, _ = evaluations("squared")
    path = [flattened(evaluation) for evaluation in found]
    step, change = found[-1].B - found[-2].B, found[-2].Q - found[-1].Q
    np.testing.assert_allclose(secant_hessian(path)(step), change, atol=1e-8 * np.abs(change).max())


@pytest.mark.parametrize("kind", ["own", "secant"])
def test_components_without_weight_are_no_trap(kind):
    problem = make_problem(*random_problem(0, "hinge", T, K), "hinge", RelationPenalty(T), 2.0, 0.5)
    B = np.zeros((K, T))
    B[:, 0] = 1.0
    found = problem.evaluate(B, tol=1e-10, curved=True)
    model = model_at([found if kind == "own" else flattened(found)])
    for weights in (B, np.zeros_like(B), np.ones_like(B)):
        value, gradient = model(weights)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
