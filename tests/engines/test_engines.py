"""Engines of this machine: blocks of tasks give the same fit, and what cannot be split is refused by name."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from engines.dask_cluster import shops
from kernelkin import (
    MKMTRLClassifier,
    MKMTRLRegressor,
    STLRegressor,
    linear_kernels,
)
from kernelkin.engines import Dask, Threads, read_engine
from kernelkin.paper import MKMTFLRegressor

ROWS = ["a", "b", "c"]
# A few tasks a block.
SMALL = 50_000


class Blocks(Dask):
    """Splits fits into blocks of tasks as a cluster does, but holds them in this process."""

    n_workers = 2

    def __init__(self, block_bytes=2**26):
        super().__init__(None, block_bytes)

    def __deepcopy__(self, memo):
        return self

    def map(self, function, items, shared):
        return [function(shared, item) for item in items]

    def hold(self, items):
        return HeldHere(items)

    def worker_memory(self):
        return []


class HeldHere:
    def __init__(self, items):
        self.items = pickle.loads(pickle.dumps(items))

    def call(self, function, arguments):
        return [function(item, *given) for item, given in zip(self.items, arguments, strict=True)]


def fit(model, target="sales", **options):
    frame = shops()
    return model.fit(frame[ROWS], frame[target], tasks=frame["shop"], **options)


CASES = [
    (MKMTRLRegressor, "sales", {"parsimony": 0.5, "normalize": "center", "init": np.ones((12, 6))}),
    (MKMTRLRegressor, "sales", {"loss": "epsilon_insensitive", "shrinkage": 0.0, "min_rank": 2.0}),
    (MKMTRLClassifier, "rising", {"class_weight": {"yes": 2.0}}),
    (MKMTFLRegressor, "sales", {}),
    (STLRegressor, "sales", {"kernel": "linear"}),
]


@pytest.mark.parametrize(("estimator", "target", "parameters"), CASES)
def test_blocks_of_tasks_give_the_fit_of_threads(estimator, target, parameters):
    expected = fit(estimator(**parameters), target)
    found = fit(estimator(engine=Blocks(block_bytes=SMALL), **parameters), target)
    np.testing.assert_allclose(found.kernel_weights_, expected.kernel_weights_, rtol=1e-10, atol=1e-10)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-10)
    assert found.duality_gap_ == pytest.approx(expected.duality_gap_, abs=1e-10 * expected.objective_)
    for own, known in zip(found.dual_coef_, expected.dual_coef_, strict=True):
        np.testing.assert_allclose(own, known, rtol=1e-6, atol=1e-9)


def test_intervals_follow_from_a_fit_in_blocks():
    frame = shops()
    expected = fit(MKMTRLRegressor()).predict_interval(frame[ROWS], frame["shop"])
    found = fit(MKMTRLRegressor(engine=Blocks())).predict_interval(frame[ROWS], frame["shop"])
    np.testing.assert_allclose(found, expected)


def test_warnings_are_those_of_threads():
    with pytest.warns(UserWarning, match="the relationship has collapsed"):
        fit(MKMTRLRegressor(shrinkage=0.0, engine=Blocks()))


def test_wide_and_precomputed_data_and_devices_are_refused():
    with pytest.raises(ValueError, match="device='cpu' is only for wide data"):
        fit(MKMTRLRegressor(engine=Blocks(), device="cpu"))
    X, Y = np.random.default_rng(0).normal(size=(2, 10, 2))
    with pytest.raises(ValueError, match="tasks that are columns of y share their rows and one Gram matrix"):
        MKMTRLRegressor(engine=Blocks()).fit(X, Y)
    grams = np.repeat(np.eye(10)[:, :, np.newaxis], 2, axis=2)
    with pytest.raises(ValueError, match="Gram matrices that are precomputed would have to travel with every block"):
        MKMTRLRegressor("precomputed", engine=Blocks()).fit(grams, Y[:, 0], tasks=np.repeat([0, 1], 5))


def test_a_kernel_may_be_zero_in_all_tasks_of_a_block():
    frame = shops()
    frame.loc[frame["shop"] < "shop 06", "c"] = 0.0
    X, kernels = frame[ROWS], linear_kernels(per_feature=True)
    model = MKMTRLRegressor(kernels, engine=Blocks(block_bytes=1)).fit(X, frame["sales"], tasks=frame["shop"])
    expected = MKMTRLRegressor(kernels).fit(X, frame["sales"], tasks=frame["shop"])
    np.testing.assert_allclose(model.kernel_weights_, expected.kernel_weights_, atol=1e-10)
    with pytest.raises(ValueError, match=r"kernel 'linear\[c\]' is zero on all training rows"):
        clone(model).fit(X.assign(c=0.0), frame["sales"], tasks=frame["shop"])


def test_threads_map_in_order():
    assert Threads(2).map(pow, [0, 1, 2, 3], 2) == [1, 2, 4, 8]


def test_engines_are_read_by_name():
    assert read_engine("threads", 3) == Threads(3)
    with pytest.raises(ValueError, match="engine must be \"threads\", a Dask client or an engine, got 'mpi'"):
        fit(MKMTRLRegressor(engine="mpi"))
