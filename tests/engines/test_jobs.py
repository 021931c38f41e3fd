"""Jobs on threads: order, counting, and the deadline."""

import time

import pytest

from kernelkin.engines import Jobs


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_results_are_in_order_and_every_step_is_counted(n_jobs):
    told = []
    with Jobs(20, n_jobs=n_jobs, report=lambda *what: told.append(what)) as jobs:

        def work(job):
            jobs.step(f"job {job}")
            return job**2

        assert jobs.map(work, range(20)) == [job**2 for job in range(20)]
    assert [done for done, _, _ in told] == list(range(1, 21))
    assert {text for _, _, text in told} == {f"job {job}" for job in range(20)} and {of for _, of, _ in told} == {20}
    assert jobs.is_complete


def test_no_job_begins_after_the_deadline():
    begun = []
    with Jobs(4, n_jobs=1, deadline=time.monotonic() + 0.05) as jobs:

        def work(job):
            begun.append(job)
            time.sleep(0.1)
            return job

        assert jobs.map(work, range(4)) == [0, None, None, None]
        assert jobs.map(work, [4], deadline=float("inf")) == [4]
    assert begun == [0, 4] and not jobs.is_complete
