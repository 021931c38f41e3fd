"""The loop over machines: order, errors, and threads."""

import threading

import pytest

from kernelkin.engines import Workers, serially


@pytest.fixture(params=[None, 2])
def n_jobs(request):
    return request.param


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

    with pytest.raises(KeyError, match=r"^0$"), Workers(n_jobs) as workers:
        workers.map(fail, range(3))


def test_no_workers_is_refused():
    with pytest.raises(ValueError, match="n_jobs must not be 0: use 1 for one thread, or -1 for all processors"):
        Workers(0)
