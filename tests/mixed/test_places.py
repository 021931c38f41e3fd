"""The same numbers on threads, on a device of torch, and in shards that travel."""

import os
import pickle
import signal

import numpy as np
import pytest

from engines.dask_cluster import two_processes
from kernelkin.engines import Dask, Threads
from kernelkin.mixed import covariance, rows
from kernelkin.mixed.covariance import HERE, Layout, Place
from mixed.problems import BY_FEATURES, LIKELIHOODS, SIZES, make_model, make_rows, terms_of

ROWS = make_rows()
QUERIES = np.random.default_rng(5).normal(size=(9, 2))
GROUPS = np.array([0, 1, 2, 3, 4, 5, -1, 0, 0]), np.array([0, 1, 2, 3, -1, -1, 0, 0, 1])


class Shards:
    """An engine that splits work as a cluster does, in this process: batches are pickled, and lost after some calls."""

    splits, n_workers = True, 2

    def __init__(self, lost_after=None):
        self.lost_after = lost_after

    def hold(self, items):
        self.items, self.calls = [pickle.dumps(item) for item in items], 0
        self.there = [pickle.loads(item) for item in self.items]
        return self

    def call(self, function, arguments):
        self.calls += 1
        if self.lost_after and self.calls % self.lost_after == 0:
            # A worker dies: its shard is sent again, without what it had kept.
            self.there[0] = pickle.loads(self.items[0])
        sent = pickle.loads(pickle.dumps(arguments))
        return [function(item, *given) for item, given in zip(self.there, sent, strict=True)]


def model_at(place, likelihood, dense, monkeypatch):
    """A model of every term, evaluated at a place, in many small batches."""
    monkeypatch.setattr(covariance, "MAX_ROWS", 8)
    names = ("mean", *BY_FEATURES, *(["given kernel"] if dense else []))
    terms = terms_of(ROWS, landmarks=ROWS.X[:6], knots=(ROWS.X[:4, 0], ROWS.X[:5, 1]))
    model = make_model(ROWS, [terms[name] for name in names], likelihood, dense)
    given = (ROWS.kernel,) if dense else ()
    make = Layout.dense if dense else Layout.blocks
    layout = make(ROWS.X, ROWS.groups, given, place=place) if dense else make(ROWS.X, ROWS.groups, place)
    model.parts[0].layout = layout
    return model


def results(model, dense):
    value, gradient = model.objective(model.x_)
    given = (0.1 * np.random.default_rng(1).normal(size=(9, len(ROWS.X))),) if dense else ()
    mean, variance = model.predict(QUERIES, GROUPS, given)
    return {"value": np.array(value), "gradient": gradient, "mean": mean, "variance": variance}


def assert_same(found, expected):
    # Newton's method for the mode stops at a change of 1e-7; with other rounding, it stops elsewhere.
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-7, atol=2e-7, err_msg=name)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("engine", [Threads(3), Shards(), Shards(lost_after=3)], ids=["threads", "shards", "lost"])
def test_engines_give_the_numbers_of_one_thread(engine, likelihood, kept, monkeypatch):
    expected = results(model_at(HERE, likelihood, False, monkeypatch), False)
    if not kept:
        monkeypatch.setattr(covariance, "KEPT_BYTES", 0)
    model = model_at(Place(engine), likelihood, False, monkeypatch)
    assert len(model.parts[0].layout.tables) > 3
    assert_same(results(model, False), expected)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_device_gives_the_numbers_of_main_memory(likelihood, dense, monkeypatch):
    pytest.importorskip("torch")
    expected = results(model_at(HERE, likelihood, dense, monkeypatch), dense)
    model = model_at(Place(HERE.engine, "cpu"), likelihood, dense, monkeypatch)
    found = results(model, dense)
    assert_same(found, expected)
    model.bring_here()
    assert_same(results(model, dense), found)


def test_a_fit_on_a_cluster_survives_the_death_of_a_worker(monkeypatch):
    """The same parameters and predictions as on threads; a worker dies between two evaluations."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(covariance, "MAX_ROWS", 8)
    terms = terms_of(ROWS, landmarks=ROWS.X[:6])
    chosen = [terms[name] for name in ("mean", "level", "level of another grouping", "common and own smooth")]
    expected = make_model(ROWS, chosen, dense=False)
    expected.fit(expected.parts, evaluations=6)
    with two_processes() as client:
        model = make_model(ROWS, chosen, dense=False)
        model.parts[0].layout = Layout.blocks(ROWS.X, ROWS.groups, Place(Dask(client)))
        counted, objective = [], model.objective

        def deadly(x):
            counted.append(x)
            if len(counted) == 3:
                os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
            return objective(x)

        model.objective = deadly
        model.fit(model.parts, evaluations=6)
        model.bring_here()
    assert len(counted) > 3
    np.testing.assert_allclose(model.x_, expected.x_, atol=1e-6)
    np.testing.assert_allclose(model.predict(QUERIES, GROUPS)[0], expected.predict(QUERIES, GROUPS)[0], atol=1e-6)


def test_batches_have_few_rows_and_pairs(monkeypatch):
    monkeypatch.setattr(rows, "MAX_ENTRIES", 50)
    tables = rows.batches_of(np.repeat(np.arange(len(SIZES)), SIZES), most_rows=10)
    assert max(table.size for table in tables) <= 10
    assert max(table.size * table.shape[1] for table in tables if len(table) > 1) <= 50
