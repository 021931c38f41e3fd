"""Fits on a Dask cluster of processes: results, and what happens when workers die."""

import os
import pickle
import signal

import numpy as np
import pytest
from distributed.comm import CommClosedError
from sklearn.base import clone

from engines.dask_cluster import PATIENCE, shops, two_processes
from kernelkin import (
    MKMTRLClassifier,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    STLRegressor,
    gaussian_kernels,
)
from kernelkin.engines import Dask
from kernelkin.exceptions import ClusterError, GramMemoryError

pytest.importorskip("distributed")

ROWS = ["a", "b", "c"]
# A few tasks a block.
SMALL = 50_000


@pytest.fixture(scope="module")
def client():
    with two_processes() as found:
        yield found


@pytest.fixture(scope="module")
def engine(client):
    return Dask(client, block_bytes=SMALL)


def fit(model, target="sales", frame=None, **options):
    frame = shops() if frame is None else frame
    return model.fit(frame[ROWS], frame[target], tasks=frame["shop"], **options)


def assert_same(found, expected, tol=1e-10):
    np.testing.assert_allclose(found.kernel_weights_, expected.kernel_weights_, rtol=tol, atol=tol)
    assert found.objective_ == pytest.approx(expected.objective_, rel=tol)
    assert found.duality_gap_ == pytest.approx(expected.duality_gap_, abs=tol * expected.objective_)


@pytest.mark.parametrize(
    ("estimator", "target", "keep_grams"), [(MKMTRLRegressor, "sales", True), (MKMTRLClassifier, "rising", False)]
)
def test_a_cluster_gives_the_fit_of_threads(client, estimator, target, keep_grams):
    expected = fit(estimator(parsimony=0.5), target)
    model = clone(estimator(parsimony=0.5, engine=Dask(client, SMALL, keep_grams)))
    assert_same(fit(model, target), expected)
    frame = shops(seed=1)
    assert (model.predict(frame[ROWS], frame["shop"]) == expected.predict(frame[ROWS], frame["shop"])).all()


def test_a_clone_has_the_same_client_and_a_pickle_none(client):
    model = clone(STLRegressor(engine=client))
    assert model.engine is client
    assert_same(fit(model), fit(STLRegressor()))
    again = pickle.loads(pickle.dumps(model))
    assert again.engine == "threads"
    assert_same(again, model)


def test_searches_run_on_the_cluster(engine):
    frame = shops(6)
    given = frame[ROWS], frame["sales"], frame["shop"]
    options = {"grid": {"C": [0.1, 1.0]}, "cv": 2, "random_state": 0}
    expected = MKMTRLRegressorCV(gaussian_kernels(1.0), **options).fit(*given)
    found = clone(MKMTRLRegressorCV(gaussian_kernels(1.0), engine=engine, **options)).fit(*given)
    scores = [model.cv_results_["mean_test_score"] for model in (found, expected)]
    np.testing.assert_allclose(*scores, rtol=1e-12)


def test_a_task_too_large_for_the_workers_is_refused_before_any_work(engine):
    X = np.zeros((20_000, 1))
    with pytest.raises(
        GramMemoryError, match=r"the Gram matrices of the largest task take 2.98 GiB, and a worker has 2 GiB"
    ):
        MKMTRLRegressor(gaussian_kernels(1.0), engine=engine).fit(X, X[:, 0], tasks=np.repeat([0, 1], [19_998, 2]))


def test_workers_of_another_version_are_named(engine):
    try:
        engine.client.run(_set_version, "0.0.1")
        with pytest.raises(ClusterError, match=r"the worker at tcp://\S+ has kernelkin 0.0.1, but this"):
            fit(MKMTRLRegressor(engine=engine))
    finally:
        from kernelkin import __version__

        engine.client.run(_set_version, __version__)


def _set_version(version):
    import kernelkin

    kernelkin.__version__ = version


class KillAWorker:
    """Ends a worker process after the first iteration, as the system does when it runs out of memory."""

    def __init__(self, client):
        self.client, self.killed = client, None

    def __call__(self, iterate):
        if self.killed is None:
            self.killed = min(self.client.run(os.getpid).values())
            os.kill(self.killed, signal.SIGKILL)


def test_a_fit_survives_the_death_of_a_worker(engine):
    expected = fit(MKMTRLClassifier(tol=1e-6), "rising")
    engine.client.wait_for_workers(2)
    kill = KillAWorker(engine.client)
    model = fit(MKMTRLClassifier(tol=1e-6, engine=engine, callback=kill), "rising")
    assert kill.killed is not None
    # Machines that start from scratch on another worker are solved to tol, not to rounding.
    assert_same(model, expected, 1e-6)


def test_objects_are_sent_again_if_a_worker_dies_while_it_receives_them(client, monkeypatch):
    scatter, calls = client.scatter, []

    def lost_once(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            raise CommClosedError("the worker is gone")
        return scatter(*arguments, **options)

    monkeypatch.setattr(client, "scatter", lost_once)
    held = Dask(client).hold([2, 3])
    assert held.call(pow, [(2,), (2,)]) == [4, 9]
    assert len(calls) == 2


def test_work_that_kills_its_workers_ends_with_an_error(engine):
    engine.client.wait_for_workers(2)
    engine.client.run_on_scheduler(_allow_no_failures)
    home = os.getpid()

    def deadly(X, Y):
        if os.getpid() != home:
            os.kill(os.getpid(), signal.SIGKILL)
        return X @ Y.T

    with pytest.raises(ClusterError, match=r"workers died repeatedly while running the same task, \S+, most likely"):
        fit(MKMTRLRegressor([deadly], engine=engine))


def _allow_no_failures(dask_scheduler):
    dask_scheduler.allowed_failures = 0


def test_a_scheduler_that_is_gone_ends_with_an_error():
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set(PATIENCE),
        LocalCluster(n_workers=1, processes=False, dashboard_address=":0", silence_logs=50) as cluster,
    ):
        client = Client(cluster)

        def stop(iterate):
            cluster.close()

        message = r"lost the Dask scheduler at \S+: start a cluster, connect a new client and fit again"
        with pytest.raises(ClusterError, match=message):
            fit(MKMTRLRegressor(tol=1e-8, engine=client, callback=stop))
        with pytest.raises(ClusterError, match="lost the Dask scheduler at an unknown address"):
            fit(MKMTRLRegressor(engine=client))
        client.close()
