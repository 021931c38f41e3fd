"""Engines of this machine: blocks of tasks give the same fit, and what cannot be split is refused by name."""

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from engines.dask_cluster import shops
from kernelkin import (
    AverageRegressor,
    IKLRegressor,
    IMKLClassifier,
    MKMTFLRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    MultiTaskCV,
    STLRegressor,
    TwoStageMKMTRLRegressor,
    gaussian_kernels,
    linear_kernels,
    task_relations,
)
from kernelkin.engines import ENGINES, Dask, Joblib, Threads, read_engine

ROWS = ["a", "b", "c"]
# A few tasks a block.
SMALL = 50_000


def fit(model, target="sales", **options):
    frame = shops()
    return model.fit(frame[ROWS], frame[target], tasks=frame["shop"], **options)


CASES = [
    (MKMTRLRegressor, "sales", {}),
    (MKMTRLRegressor, "sales", {"parsimony": 0.5, "normalize": "center", "init": np.ones((12, 6))}),
    (MKMTRLRegressor, "sales", {"loss": "epsilon_insensitive", "shrinkage": 0.0, "min_rank": 2.0}),
    (MKMTRLClassifier, "rising", {"class_weight": {"yes": 2.0}}),
    (IMKLClassifier, "rising", {"loss": "squared"}),
    (IKLRegressor, "sales", {}),
    (MKMTFLRegressor, "sales", {}),
    (AverageRegressor, "sales", {}),
    (STLRegressor, "sales", {"kernel": "linear"}),
]


@pytest.mark.parametrize(("estimator", "target", "parameters"), CASES)
def test_blocks_of_tasks_give_the_fit_of_threads(estimator, target, parameters):
    expected = fit(estimator(**parameters), target)
    with joblib.parallel_config("sequential"):
        found = fit(estimator(engine=Joblib(block_bytes=SMALL), **parameters), target)
    np.testing.assert_allclose(found.kernel_weights_, expected.kernel_weights_, rtol=1e-10, atol=1e-10)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-10)
    assert found.duality_gap_ == pytest.approx(expected.duality_gap_, abs=1e-10 * expected.objective_)
    for own, known in zip(found.dual_coef_, expected.dual_coef_, strict=True):
        np.testing.assert_allclose(own, known, rtol=1e-6, atol=1e-9)


def test_intervals_follow_from_a_fit_in_blocks():
    frame = shops()
    expected = fit(MKMTRLRegressor()).predict_interval(frame[ROWS], frame["shop"])
    with joblib.parallel_config("sequential"):
        found = fit(MKMTRLRegressor(engine="joblib")).predict_interval(frame[ROWS], frame["shop"])
    np.testing.assert_allclose(found, expected)


def test_warnings_are_those_of_threads():
    with pytest.warns(UserWarning, match="the relationship has collapsed"), joblib.parallel_config("sequential"):
        fit(MKMTRLRegressor(shrinkage=0.0, engine="joblib"))


def test_wide_and_precomputed_data_and_devices_are_refused():
    with pytest.raises(ValueError, match="device='cpu' is for wide data"):
        fit(MKMTRLRegressor(engine="joblib", device="cpu"))
    X, Y = np.random.default_rng(0).normal(size=(2, 10, 2))
    with pytest.raises(ValueError, match="tasks that are columns of y share their rows and one Gram matrix"):
        MKMTRLRegressor(engine="joblib").fit(X, Y)
    grams = np.repeat(np.eye(10)[:, :, np.newaxis], 2, axis=2)
    with pytest.raises(ValueError, match="Gram matrices that are precomputed would have to travel with every block"):
        MKMTRLRegressor("precomputed", engine="joblib").fit(grams, Y[:, 0], tasks=np.repeat([0, 1], 5))


def test_a_kernel_may_be_zero_in_all_tasks_of_a_block():
    frame = shops()
    frame.loc[frame["shop"] < "shop 06", "c"] = 0.0
    X, kernels = frame[ROWS], linear_kernels(per_feature=True)
    with joblib.parallel_config("sequential"):
        model = MKMTRLRegressor(kernels, engine=Joblib(block_bytes=1)).fit(X, frame["sales"], tasks=frame["shop"])
    expected = MKMTRLRegressor(kernels).fit(X, frame["sales"], tasks=frame["shop"])
    np.testing.assert_allclose(model.kernel_weights_, expected.kernel_weights_, atol=1e-10)
    with (
        pytest.raises(ValueError, match=r"kernel 'linear\[c\]' is zero on all training rows"),
        joblib.parallel_config("sequential"),
    ):
        clone(model).fit(X.assign(c=0.0), frame["sales"], tasks=frame["shop"])


def test_every_engine_maps_in_order():
    with joblib.parallel_config("threading", n_jobs=2):
        for engine in (Threads(2), Joblib(2)):
            assert engine.map(pow, [0, 1, 2, 3], 2) == [1, 2, 4, 8]


def test_engines_are_read_by_name():
    assert read_engine("threads", 3) == Threads(3)
    assert read_engine("joblib", 2) == Joblib(2)
    assert set(ENGINES) == {"threads", "joblib", "dask"} and ENGINES["dask"] is Dask
    with pytest.raises(ValueError, match='engine must be "threads", "joblib", a Dask client or an engine, got \'mpi\''):
        fit(MKMTRLRegressor(engine="mpi"))


def search(engine):
    frame = shops(6)
    grid = {"C": [0.1, 1.0], "parsimony": [0.0, 0.5]}
    model = MKMTRLRegressorCV(gaussian_kernels((0.5, 1.0)), grid=grid, cv=2, random_state=0, engine=engine)
    return model.fit(frame[ROWS], frame["sales"], tasks=frame["shop"])


def test_a_search_gives_the_same_scores_wherever_it_runs():
    expected, seen = search("threads"), []
    with joblib.parallel_config("sequential"):
        found = search("joblib")
        other = MultiTaskCV(TwoStageMKMTRLRegressor(n_rounds=50, random_state=0), {"C": [0.1, 1.0]}, cv=2)
        frame = shops(4)
        given = frame[ROWS], frame["sales"], frame["shop"]
        known = clone(other).set_params(random_state=0).fit(*given)
        same = clone(other).set_params(random_state=0, engine="joblib", callback=lambda *n: seen.append(n)).fit(*given)
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    assert found.best_params_ == expected.best_params_
    np.testing.assert_allclose(found.kernel_weights_, expected.kernel_weights_, atol=1e-10)
    np.testing.assert_allclose(same.cv_results_["split1_test_score"], known.cv_results_["split1_test_score"])
    assert seen[-1] == (4, 4)


def test_a_permutation_test_gives_the_same_result_wherever_it_runs():
    frame = shops(6)
    given = frame[ROWS], frame["sales"], frame["shop"]
    model = MKMTRLRegressor().fit(*given)
    expected = task_relations(model, *given, n_permutations=39, random_state=0)
    with joblib.parallel_config("sequential"):
        found = task_relations(model, *given, n_permutations=39, random_state=0, engine="joblib")
    assert (found.p_value, found.groups.tolist()) == (expected.p_value, expected.groups.tolist())


class ThreeBlocks(Joblib):
    """Plays the first stage in three blocks."""

    n_workers = 3


def play(frame, **parameters):
    model = TwoStageMKMTRLRegressor(n_rounds=3000, random_state=0, **parameters)
    with joblib.parallel_config("sequential"):
        return model.fit(frame[ROWS], frame["sales"], tasks=frame["shop"])


def test_rounds_in_blocks_learn_as_well_as_one_stream():
    frame = shops(24)
    rows = frame.groupby("shop").cumcount()
    train, test = frame[rows % 3 != 0], frame[rows % 3 == 0]
    one, three = play(train), play(train, engine=ThreeBlocks())
    assert three.n_iter_ == 3000 and three.history_["round"][-1] == 3000
    np.testing.assert_allclose(three.kernel_weights_.sum(axis=1), 1.0)
    scores = [model.score(test[ROWS], test["sales"], test["shop"]) for model in (one, three)]
    assert scores[0] == pytest.approx(scores[1], abs=0.05) and min(scores) > 0.2


def test_mistakes_of_a_block_reach_the_tasks_of_others():
    frame = shops(12)
    other = frame.copy()
    first = frame["shop"] < "shop 04"
    other.loc[first, "sales"] = np.random.default_rng(0).normal(size=first.sum())
    weights = [play(each, engine=ThreeBlocks()).kernel_weights_[4:] for each in (frame, other)]
    assert np.abs(weights[0] - weights[1]).max() > 1e-4
