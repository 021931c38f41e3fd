"""BLAS at one thread while a fit runs, in whichever threads fits begin and end; and the same bits everywhere."""

import os
import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.engines import Workers
from kernelkin.engines.threads import SingleThreadedBLAS

BEFORE = 2


def blas_threads():
    """The set of numbers of threads of all BLAS libraries of this process that are built with threads."""
    found = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {pool["num_threads"] for pool in found if pool.get("threading_layer") != "disabled"}


def in_thread(function):
    """Run a function in a thread of its own; its result, or its error."""
    found = []

    def work():
        try:
            found.append(function())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


@pytest.fixture(autouse=True)
def two_threads():
    """Two threads outside of fits, whatever the environment says, so that a limit of one can be seen."""
    with threadpool_limits(BEFORE, "blas"):
        assert blas_threads() == {BEFORE}
        yield


def inside(context):
    with context:
        return blas_threads()


@pytest.mark.parametrize("context", [SingleThreadedBLAS, Workers, lambda: Workers(2)])
@pytest.mark.parametrize("run", [lambda function: function(), in_thread], ids=["main thread", "other thread"])
def test_one_thread_inside_and_what_was_there_before_afterwards(context, run):
    assert run(lambda: inside(context())) == {1}
    assert blas_threads() == {BEFORE}


def test_what_was_there_before_is_restored_after_an_error():
    with pytest.raises(KeyboardInterrupt), Workers(2):
        raise KeyboardInterrupt
    assert blas_threads() == {BEFORE}


def test_nested_blocks_keep_the_limit_until_the_outermost_ends():
    with SingleThreadedBLAS():
        with Workers(2):
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {BEFORE}


@pytest.mark.parametrize("first_out", ["first in", "last in"])
def test_blocks_that_overlap_in_two_threads_keep_the_limit_until_the_last_ends(first_out):
    entered, leave = threading.Event(), threading.Event()
    seen = {}

    def other():
        with SingleThreadedBLAS():
            entered.set()
            assert leave.wait(30)
            seen["other"] = blas_threads()

    thread = threading.Thread(target=other)
    thread.start()
    assert entered.wait(30)
    block = SingleThreadedBLAS()
    block.__enter__()
    if first_out == "first in":
        leave.set()
        thread.join()
        assert blas_threads() == {1}
        block.__exit__()
    else:
        block.__exit__()
        assert blas_threads() == {1}
        leave.set()
        thread.join()
    assert seen["other"] == {1}
    assert blas_threads() == {BEFORE}


def data(classification=False):
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(240, 12)), np.repeat(np.arange(3), 80)
    y = np.sin(X[:, 0]) + X[:, 1] * (tasks == 0) + 0.1 * rng.normal(size=240)
    return X, y > 0 if classification else y, tasks


def bits(estimator):
    """The bytes of the weights and values of a fit, and how many BLAS threads it saw."""
    seen = set()
    X, y, tasks = data(estimator is MKMTRLClassifier)
    model = estimator(max_iter=3, tol=0.5, callback=lambda iterate: seen.update(blas_threads()))
    model.fit(X, y, tasks=tasks)
    values = model.decision_function(X, tasks=tasks) if estimator is MKMTRLClassifier else model.predict(X, tasks=tasks)
    return model.kernel_weights_.tobytes() + values.tobytes(), seen


@pytest.mark.parametrize("estimator", [MKMTRLClassifier, MKMTRLRegressor])
def test_a_fit_has_the_same_bits_in_any_thread(estimator):
    expected, seen = bits(estimator)
    assert seen == {1}
    assert in_thread(lambda: bits(estimator)) == (expected, {1})
    under_joblib = joblib.Parallel(2, backend="threading")(joblib.delayed(bits)(estimator) for _ in range(3))
    assert under_joblib == [(expected, {1})] * 3
    assert blas_threads() == {BEFORE}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_forked_while_another_thread_changes_the_limit_can_fit():
    """In a process of its own: no other test has threads that a fork could hurt."""
    program = """
import os, signal, sys
import numpy as np
from threadpoolctl import threadpool_info
from kernelkin import MKMTRLRegressor
from kernelkin.engines import threads

X = np.random.default_rng(0).normal(size=(30, 2))
# A lock that is held at a fork is never released in the child.
with threads.SingleThreadedBLAS(), threads.SingleThreadedBLAS.lock:
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        seen = []
        look = lambda iterate: seen.extend(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
        MKMTRLRegressor(callback=look).fit(X, X[:, 0])
        os._exit(0 if set(seen) == {1} else 1)
    _, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
