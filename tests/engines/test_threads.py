"""The loop over machines: order, errors, and the number of BLAS threads."""

import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kernelkin.engines import Workers, serially


@pytest.fixture(params=[None, 1, 2, 3])
def n_jobs(request):
    return request.param


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_results_come_in_order(n_jobs):
    with Workers(n_jobs) as workers:
        assert workers.map(lambda i: i**2, range(20)) == serially(lambda i: i**2, range(20))
        assert workers.map(abs, []) == []


def test_work_is_spread_over_threads():
    meeting = threading.Barrier(2, timeout=30)
    with Workers(2) as workers:
        # Neither call returns before the other has begun.
        assert sorted(workers.map(lambda _: meeting.wait(), range(2))) == [0, 1]


def test_an_error_reaches_the_caller(n_jobs):
    def fail(i):
        raise KeyError(i)

    with pytest.raises(KeyError, match="0"), Workers(n_jobs) as workers:
        workers.map(fail, range(3))


def test_blas_keeps_to_one_thread_inside_and_is_set_free_after(n_jobs):
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        with pytest.raises(KeyboardInterrupt), Workers(n_jobs):
            assert set(blas_threads()) == {1}
            raise KeyboardInterrupt
        assert blas_threads() == before


def test_no_workers_is_refused():
    with pytest.raises(ValueError, match="n_jobs"):
        Workers(0)
