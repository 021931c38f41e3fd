"""A Dask cluster of processes: fits of Kin, and what happens when workers die."""

import os
import pickle
import signal

import numpy as np
import pytest
from sklearn.base import clone

from engines.dask_cluster import PATIENCE, two_processes
from kernelkin import KinRegressor
from kernelkin.engines import Dask, read_engine
from kernelkin.exceptions import ClusterError
from kernelkin.kin import fit as kin_fit
from kernelkin.mixed import covariance, structures
from kernelkin.mixed.structures import Structure

CommClosedError = pytest.importorskip("distributed.comm").CommClosedError

TASKS = np.repeat(np.arange(20), 6)
X = np.random.default_rng(0).normal(size=(120, 2))
Y = 0.5 * np.sin(TASKS) + np.sin(2 * X[:, 0]) + 0.1 * np.cos(7 * X[:, 1])


@pytest.fixture(scope="module")
def client():
    with two_processes() as found:
        yield found


@pytest.fixture
def few_count_as_many(monkeypatch):
    """Two structures, few rows that count as many, and several batches of blocks."""
    chosen = Structure("slopes", slopes=True), Structure("slopes and common smooth", common=True)
    monkeypatch.setattr(kin_fit, "STRUCTURES", chosen)
    monkeypatch.setattr(structures, "EXACT_ROWS", 40)
    monkeypatch.setattr(covariance, "MAX_ROWS", 30)


def fit(**options):
    return KinRegressor(cv=2, random_state=0, n_jobs=1, **options).fit(X, Y, tasks=TASKS)


def kill_one(client):
    """End a worker process, as the system does when it runs out of memory."""
    worker = min(client.run(os.getpid).values())
    os.kill(worker, signal.SIGKILL)
    return worker


def test_a_fit_survives_the_death_of_a_worker(client, few_count_as_many):
    client.wait_for_workers(2)
    expected, killed = fit(), []

    def kill(spent, total):
        if not killed:
            killed.append(kill_one(client))

    model = clone(KinRegressor(engine=client))
    assert model.engine is client
    model = fit(engine=client, callback=kill)
    assert killed
    np.testing.assert_allclose(model.predict(X, TASKS), expected.predict(X, TASKS), atol=1e-6)
    again = pickle.loads(pickle.dumps(model.set_params(callback=None)))
    assert again.engine == "threads" and model.engine is client
    assert (again.predict(X, TASKS) == model.predict(X, TASKS)).all()


def test_lost_objects_are_sent_again(client):
    client.wait_for_workers(2)
    held = Dask(client).hold([2, 3, 4, 5])
    assert held.call(pow, [(2,)] * 4) == [4, 9, 16, 25]
    kill_one(client)
    assert held.call(pow, [(3,)] * 4) == [8, 27, 64, 125]


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


def test_workers_of_another_version_are_named(client):
    from kernelkin import __version__

    held = Dask(client).hold([2])
    try:
        client.run(_set_version, "0.0.1")
        with pytest.raises(ClusterError, match=r"the worker at tcp://\S+ has kernelkin 0.0.1, but this"):
            held.call(pow, [(2,)])
    finally:
        client.run(_set_version, __version__)


def _set_version(version):
    import kernelkin

    kernelkin.__version__ = version


def test_errors_of_workers_are_explained(client):
    held = Dask(client).hold([2])

    def full(item):
        raise MemoryError("no room")

    def wrong(item):
        raise ValueError(f"{item} is wrong")

    with pytest.raises(ClusterError, match=r"a worker ran out of memory: no room \(limit per worker: 2 GiB\). Give"):
        held.call(full, [()])
    with pytest.raises(ValueError, match="2 is wrong"):
        held.call(wrong, [()])


def test_work_that_kills_its_workers_ends_with_an_error(client):
    client.wait_for_workers(2)
    client.run_on_scheduler(_allow_no_failures)

    def deadly(item):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ClusterError, match=r"workers died repeatedly while running the same task, \S+, most likely"):
        Dask(client).hold([2]).call(deadly, [()])


def _allow_no_failures(dask_scheduler):
    dask_scheduler.allowed_failures = 0


def test_a_scheduler_that_is_gone_ends_with_an_error(few_count_as_many):
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set(PATIENCE),
        LocalCluster(n_workers=1, processes=False, dashboard_address=":0", silence_logs=50) as cluster,
    ):
        client = Client(cluster)
        message = r"lost the Dask scheduler at \S+: start a cluster, connect a new client and fit again"
        with pytest.raises(ClusterError, match=message):
            fit(engine=client, callback=lambda spent, total: cluster.close())
        with pytest.raises(ClusterError, match="lost the Dask scheduler at an unknown address"):
            fit(engine=client)
        client.close()


def test_engines_are_read_by_name(client):
    assert read_engine("threads") is None
    assert read_engine(client).client is client
    with pytest.raises(ValueError, match="engine must be \"threads\" or a Dask client, got 'mpi'"):
        fit(engine="mpi")
