"""Models put together from a loss, a penalty and a solver."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from models.problems import long_data, values
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from kernelkin import IMKLClassifier, IMKLRegressor, MKMTRLClassifier, MKMTRLRegressor
from kernelkin.paper import (
    IKLClassifier,
    IKLRegressor,
    MKMTFLRegressor,
    MultiTaskKernelClassifier,
    MultiTaskKernelRegressor,
)
from kernelkin.paper.penalties import (
    FixedWeights,
    LpPenalty,
    MixedNorm,
    Penalty,
    Relation,
    RelationPenalty,
    SharedLpPenalty,
    SpectralNorm,
)
from kernelkin.paper.problems import Problem
from kernelkin.paper.solvers import Joint, Point, Solver, Status

X, Y, LABELS, TASKS = long_data(3)
SAME = {
    "relation": (MKMTRLRegressor(), {}),
    "relation, hinge": (MKMTRLClassifier(), {}),
    "relation, of min_rank 2": (MKMTRLRegressor(min_rank=2), {"penalty": lambda s: RelationPenalty(3, None, 0.1, 2.0)}),
    "lp": (IMKLRegressor(p=1.5), {"penalty": LpPenalty(1.5)}),
    "lp, hinge": (IMKLClassifier(), {"penalty": "lp"}),
    "lp, epsilon-insensitive": (
        IMKLRegressor(loss="epsilon_insensitive", epsilon=0.2),
        {"penalty": "lp", "loss": "epsilon_insensitive", "epsilon": 0.2},
    ),
    "shared": (IKLRegressor(), {"penalty": "shared"}),
    "shared, balanced classes": (
        IKLClassifier(class_weight="balanced"),
        {"penalty": lambda shape: SharedLpPenalty(), "class_weight": "balanced"},
    ),
    "mixed": (MKMTFLRegressor(), {"penalty": MixedNorm(), "C": 1.0}),
}


@pytest.mark.parametrize("name", SAME)
def test_a_composed_model_is_the_model_of_its_parts(name):
    known, parts = SAME[name]
    y = LABELS if is_classifier(known) else Y
    known = clone(known).fit(X, y, tasks=TASKS)
    composed = (MultiTaskKernelClassifier if is_classifier(known) else MultiTaskKernelRegressor)(**parts)
    composed.fit(X, y, tasks=TASKS)
    np.testing.assert_array_equal(composed.kernel_weights_, known.kernel_weights_)
    np.testing.assert_array_equal(values(composed, X, tasks=TASKS), values(known, X, tasks=TASKS))
    assert composed.duality_gap_ == known.duality_gap_


@dataclass(frozen=True)
class WeightedSquares(Penalty):
    """sum_kt c_k b_kt^2: a penalty of a user's own, whose bound is known in closed form."""

    costs: tuple[float, ...]
    name: ClassVar[str] = "weighted_squares"

    def value_and_gradient(self, B):
        c = np.array(self.costs)[:, np.newaxis]
        return float((c * B**2).sum()), c * B

    def bound(self, Q, B, mu):
        return -float((Q**2 / np.array(self.costs)[:, np.newaxis]).sum()) / (2 * mu)

    def relation(self, B):
        return Relation.of_matrix(np.eye(B.shape[1]) / B.shape[1])


def test_a_penalty_of_ones_own_is_minimised_and_certified():
    kernels, costs = ["rbf", "linear"], (1.0, 4.0)
    options = {"kernels": kernels, "C": 2.0, "mu": 0.5, "tol": 1e-7, "max_iter": 500}
    model = MultiTaskKernelRegressor(penalty=WeightedSquares(costs), **options).fit(X, Y, tasks=TASKS)
    assert 0 <= model.duality_gap_ <= 1e-7 * model.objective_
    # A kernel of cost c is the kernel of cost 1 divided by sqrt(c).
    grams = np.stack([kernel(X, X) for kernel in model.kernels_], axis=2)
    for task in model.tasks_:
        rows = np.flatnonzero(task == TASKS)
        grams[np.ix_(rows, rows)] /= np.diagonal(grams[np.ix_(rows, rows)]).mean(axis=1)
    scaled = grams / np.sqrt(costs)
    options |= {"kernels": "precomputed", "normalize": None}
    plain = MultiTaskKernelRegressor(penalty=WeightedSquares((1.0, 1.0)), **options).fit(scaled, Y, tasks=TASKS)
    assert plain.objective_ == pytest.approx(model.objective_, rel=1e-6)
    np.testing.assert_allclose(plain.kernel_weights_ / np.sqrt(costs), model.kernel_weights_, atol=1e-3)


@dataclass(frozen=True)
class Steepest(Solver):
    """Projected gradient steps of fixed length: a solver of a user's own."""

    length: float = 0.05
    name: ClassVar[str] = "steepest"
    role: ClassVar[str] = "steepest"
    problems: ClassVar[tuple[type, ...]] = (Problem,)

    def run(self, problem, start, certificate):
        K, J = problem.grams.n_kernels, problem.grams.n_components
        B, last = np.ones((K, J)) / K if start is None else start, None
        certificate.accuracy = 1e-6
        while not np.array_equal(B, last):
            evaluation = yield Point(B)
            slope = problem.mu * problem.penalty.value_and_gradient(B)[1] - evaluation.Q
            B, last = np.maximum(B - self.length * slope, 0.0), B
        return Status.STATIONARY


def test_a_solver_of_ones_own_reaches_the_optimum_of_ours():
    options = {"penalty": "lp", "kernels": ["rbf", "linear"], "tol": 1e-5, "max_iter": 3000}
    own = MultiTaskKernelRegressor(solver=Steepest(), **options).fit(X, Y, tasks=TASKS)
    ours = MultiTaskKernelRegressor(solver=Joint(), **options).fit(X, Y, tasks=TASKS)
    assert own.n_iter_ > ours.n_iter_
    assert own.objective_ == pytest.approx(ours.objective_, rel=2e-5)
    assert own.duality_gap_ <= 1e-5 * own.objective_


def test_parts_that_are_none_or_do_not_go_together_are_refused_by_name():
    for parameters, message in [
        ({"penalty": "ridge"}, r"penalty must be 'relation', .* or a callable that returns one, got 'ridge'"),
        ({"penalty": 0.5}, r"penalty must be .* got 0.5"),
        ({"penalty": SpectralNorm(1.0, 1.0)}, r"penalty must be .* got SpectralNorm"),
        ({"solver": "newton"}, r"solver 'newton' cannot solve a Problem with the relation penalty; use solver='joint'"),
        ({"penalty": "mixed", "solver": "alternating"}, r"solver 'alternating' cannot solve a MixedNormProblem"),
        ({"penalty": "mixed", "solver": Joint()}, r"solver 'joint' cannot solve a MixedNormProblem"),
        ({"penalty": LpPenalty}, r"penalty must be .* got <class 'kernelkin.paper.penalties.norms.LpPenalty'>"),
        ({"penalty": lambda shape: None}, r"the callable penalty must return a penalty, but it returned None"),
        ({"solver": 3}, r"The 'solver' parameter of MultiTaskKernelRegressor must be .* Got 3 instead"),
    ]:
        with pytest.raises(ValueError, match=message):
            MultiTaskKernelRegressor(**parameters).fit(X, Y, tasks=TASKS)


def test_a_second_fit_drops_what_only_the_first_one_had():
    model = MKMTRLRegressor(couplings="common").fit(X, Y, tasks=TASKS)
    assert model.part_shares_.shape == (3, 2)
    model.set_params(couplings=None).fit(X, Y, tasks=TASKS)
    assert not hasattr(model, "part_shares_")
    assert model.coupling_weights_.shape == (0, 6)


def test_estimating_memory_fits_nothing():
    model = MKMTRLRegressor()
    assert model.estimate_memory(X, Y, TASKS) > X.nbytes
    assert vars(model) == vars(MKMTRLRegressor())
    with pytest.raises(NotFittedError):
        model.predict(X, tasks=TASKS)


def test_penalties_of_another_number_of_tasks_or_kernels_are_refused():
    for penalty, message in [
        (FixedWeights(np.ones((2, 4))), r"the fixed kernel weights have shape \(2, 4\); this problem needs \(2, 3\)"),
        (FixedWeights(np.ones((3, 2))), r"the fixed kernel weights have shape \(3, 2\)"),
        (RelationPenalty(2), "the penalty has 2 components, but the problem has 3"),
        (RelationPenalty(5), "the penalty has 5 components, but the problem has 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            MultiTaskKernelRegressor(["rbf", "linear"], penalty=penalty).fit(X, Y, tasks=TASKS)
