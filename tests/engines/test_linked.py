"""Tasks that share parts of their functions, in blocks of tasks: the fit of one process, and what is refused."""

import joblib
import numpy as np
import pytest

from engines.dask_cluster import shops
from kernelkin import (
    MKMTRLClassifier,
    MKMTRLRegressor,
    MultiTaskKernelEstimator,
    TwoStageMKMTRLRegressor,
    gaussian_kernels,
    linear_kernels,
)
from kernelkin.data import RowBlocks, take_tasks
from kernelkin.engines import Joblib
from kernelkin.exceptions import ApproximationWarning
from kernelkin.fitting import linked
from kernelkin.grams.landmarks import choose_landmarks
from kernelkin.kernels import fit_kernels
from kernelkin.penalties import FixedWeights

ROWS = ["a", "b", "c"]
# A few tasks a block.
SMALL = 20_000
KERNELS = [*gaussian_kernels((0.5, 1.0, 2.0)), *linear_kernels()]
GROUPS = [t % 3 for t in range(12)]


def fit(model, target="sales", frame=None):
    frame = shops() if frame is None else frame
    return model.fit(frame[ROWS], frame[target], tasks=frame["shop"], sample_weight=frame["weight"])


def fit_in_blocks(estimator, target="sales", frame=None, **parameters):
    with joblib.parallel_config("sequential"):
        return fit(estimator(KERNELS, engine=Joblib(block_bytes=SMALL), **parameters), target, frame)


@pytest.mark.parametrize(
    ("estimator", "target", "parameters"),
    [
        (MKMTRLRegressor, "sales", {"couplings": "common", "parsimony": 0.5, "tol": 1e-6}),
        (MKMTRLRegressor, "sales", {"couplings": {"all": "common", "groups": GROUPS}, "sharing": 0.5}),
        (MKMTRLRegressor, "sales", {"couplings": {"groups": GROUPS}, "fit_intercept": False, "normalize": None}),
        (MKMTRLRegressor, "sales", {"couplings": "common", "unknown_tasks": "common", "init": [[0, 0, 0, 1]] * 13}),
        (MKMTRLClassifier, "rising", {"couplings": "inputs", "loss": "squared", "class_weight": {"yes": 2.0}}),
    ],
)
def test_blocks_of_linked_tasks_give_the_fit_of_threads(estimator, target, parameters):
    parameters = {"shared_rank": 40, **parameters}
    expected = fit(estimator(KERNELS, **parameters), target)
    found = fit_in_blocks(estimator, target, **parameters)
    for name in ("kernel_weights_", "coupling_weights_", "part_shares_", "shared_error_", "intercept_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-10, err_msg=name)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-12)
    assert found.duality_gap_ == pytest.approx(expected.duality_gap_, abs=1e-12 * expected.objective_)
    assert found.duality_gap_ <= parameters.get("tol", 1e-3) * found.objective_
    frame = shops(seed=1)
    tasks = frame["shop"].to_numpy()
    if "unknown_tasks" in parameters:
        tasks[:10] = "a new shop"
    values = [
        model.decision_function(frame[ROWS], tasks) if target == "rising" else model.predict(frame[ROWS], tasks)
        for model in (found, expected)
    ]
    np.testing.assert_allclose(*values, atol=1e-10)


def test_rows_that_are_elsewhere_give_the_fit_of_their_rows():
    frame, tasks = shops(), shops()["shop"].to_numpy()
    parameters = {"couplings": {"all": "common", "groups": GROUPS}, "shared_rank": 40, "parsimony": 0.5}
    expected = fit(MKMTRLRegressor(KERNELS, **parameters))
    engine = Joblib(block_bytes=SMALL)
    model = MKMTRLRegressor(KERNELS, engine=engine, **parameters)
    data = model.training_data(frame[ROWS], frame["sales"], tasks, frame["weight"])
    parts = [take_tasks(data, part) for part in (np.arange(8, 12), np.arange(3), np.arange(3, 8))]
    with joblib.parallel_config("sequential"):
        rows = RowBlocks.of(engine, engine.hold(parts))
        found = model.specification().plan_remote(rows).run(model.run_options()).attributes
        functions = found["functions_"]
        assert len(functions.held) > len(parts)
        for name in ("kernel_weights_", "coupling_weights_", "part_shares_", "shared_error_", "intercept_"):
            np.testing.assert_allclose(found[name], getattr(expected, name), atol=1e-10, err_msg=name)
        assert found["duality_gap_"] == pytest.approx(expected.duality_gap_, abs=1e-12 * expected.objective_)
        where = frame[ROWS].to_numpy(), np.searchsorted(expected.tasks_, tasks)
        for only in (None, 0, 1, 2):
            known = expected.functions_.values(*where, only)
            np.testing.assert_allclose(functions.values(*where, only), known, atol=1e-10)
            np.testing.assert_allclose(functions.gather().values(*where, only), known, atol=1e-10)


def test_two_stages_of_linked_tasks_on_rows_that_are_elsewhere():
    frame = shops()
    kernels, engine = linear_kernels(per_feature=True), Joblib(block_bytes=SMALL)
    model = TwoStageMKMTRLRegressor(kernels, couplings="common", n_rounds=200, random_state=0, engine=engine)
    data = model.training_data(frame[ROWS], frame["sales"], frame["shop"])
    codes = np.searchsorted(data.labels, frame["shop"])
    with joblib.parallel_config("sequential"):
        rows = RowBlocks.of(engine, engine.hold([take_tasks(data, part) for part in (np.arange(7), np.arange(7, 12))]))
        found = model.specification().plan_remote(rows).run(model.run_options()).attributes
        values = found["functions_"].values(data.X, codes)
    # Own and common parts have half of the weights each.
    own = found["kernel_weights_"].T / 2
    fixed = FixedWeights(np.column_stack([own, own.mean(axis=1)]))
    expected = MultiTaskKernelEstimator(kernels, penalty=fixed, couplings="common").fit(
        frame[ROWS], frame["sales"], tasks=frame["shop"]
    )
    np.testing.assert_allclose(values, expected.functions_.values(data.X, codes), atol=1e-9)


def test_a_shared_kernel_that_is_zero_is_named():
    def third(X, Y):
        return X[:, 2:] @ Y[:, 2:].T

    frame = shops().assign(c=0.0)
    with (
        pytest.raises(ValueError, match="kernel 'third' is zero on all training rows"),
        joblib.parallel_config("sequential"),
    ):
        model = MKMTRLRegressor([*gaussian_kernels(1.0), third], couplings="common", shared_rank=40, engine="joblib")
        fit(model, frame=frame)


def test_landmarks_of_a_sample_approximate_from_below(monkeypatch):
    # What factors lack is positive semi-definite, so the optimum is at least that of the exact problem.
    exact = fit(MKMTRLRegressor(KERNELS, couplings="common", shared_rank=None, tol=1e-6))
    monkeypatch.setattr(linked, "MOST_SAMPLED", 50)
    found = fit_in_blocks(MKMTRLRegressor, couplings="common", shared_rank=80, tol=1e-6)
    assert exact.objective_ - exact.duality_gap_ <= found.objective_ <= 1.2 * exact.objective_
    X = np.random.default_rng(0).normal(size=(60, 3))
    kernels = fit_kernels(KERNELS, X)
    link = choose_landmarks(kernels, X[:30], 40)
    for kernel, Phi, missing in zip(kernels, link.factors(X), (True, True, True, False), strict=True):
        left = np.linalg.eigvalsh(kernel(X) - Phi @ Phi.T)
        assert left[0] > -1e-9 and (left[-1] > 1e-6) == missing


def test_linear_kernels_are_shared_exactly():
    kernels = linear_kernels(per_feature=True)
    frame = shops()
    given = frame[ROWS], frame["sales"], frame["shop"]
    expected = MKMTRLRegressor(kernels, couplings="common", shared_rank=None).fit(*given)
    with joblib.parallel_config("sequential"):
        found = MKMTRLRegressor(kernels, couplings="common", shared_rank=None, engine="joblib").fit(*given)
    assert found.shared_error_ is None
    np.testing.assert_allclose(found.predict(given[0], given[2]), expected.predict(given[0], given[2]), atol=1e-10)


def test_an_approximation_that_nobody_asked_for_is_named():
    with pytest.warns(
        ApproximationWarning, match=r"the part that tasks share is approximated by factors of \d+ columns"
    ):
        fit_in_blocks(MKMTRLRegressor, couplings="common")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"loss": "epsilon_insensitive"},
            "couplings are eliminated from blocks of tasks by linear algebra, for the sq",
        ),
        (
            {"normalize": "cosine"},
            "normalize='cosine' scales what tasks share by a matrix over the rows of all of them",
        ),
        ({"shared_rank": None}, "shared_rank=None makes what tasks share exact, by a matrix over the rows of all"),
        (
            {"couplings": {"each": range(12)}},
            "couplings of 12 columns and factors of 40 make 480 columns, and at most 400 can be eliminated from blocks",
        ),
        (
            {"init": np.full((13, 4), 1e20)},
            "C times the kernel weights is so large that the part that tasks share cannot",
        ),
    ],
)
def test_what_linked_blocks_cannot_have_is_refused_by_name(parameters, message, monkeypatch):
    monkeypatch.setattr(linked, "MOST_COLUMNS", 400)
    with pytest.raises(ValueError, match=message):
        fit_in_blocks(MKMTRLRegressor, **{"couplings": "common", "shared_rank": 40, **parameters})


def test_linked_tasks_with_other_classes_are_refused():
    frame = shops()
    frame.loc[frame["shop"] == "shop 03", "rising"] = "yes"
    with pytest.raises(ValueError, match=r"coupled tasks in blocks must have the same classes, .* those of 'shop 03'"):
        fit_in_blocks(MKMTRLClassifier, "rising", frame, couplings="common", loss="squared", shared_rank=40)
