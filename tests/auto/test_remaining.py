"""The time that a search still takes, of work whose times are known."""

import numpy as np
import pytest

from kernelkin import KinRegressor
from kernelkin.auto.remaining import COSTLY, KEPT, LAST_FITS, GroupWork, Remaining


def test_what_is_left_of_groups_that_take_equally_long():
    """Two cheap groups of ten trials, each a second on the first fold, of five folds."""
    work = Remaining(5, {"a": GroupWork(10, False), "b": GroupWork(10, False)})
    assert work.left == 0  # nothing is known
    work.screened("a", 1.0)
    # The other folds of the trials that are kept, and the whole of the other group.
    search = 4 * KEPT[False] + 1 + 4 * KEPT[False]
    assert work.left == pytest.approx(search + LAST_FITS * (1 + search))
    work.kept("a", 2)
    work.finished("a", 0.8)
    work.screened("b", 1.0)
    work.kept("b", 0)
    assert work.left == pytest.approx(LAST_FITS * 2.8)


def test_costly_groups_are_guessed_until_one_is_measured():
    groups = {"cheap": GroupWork(10, False), "one": GroupWork(4, True), "two": GroupWork(4, True)}
    work = Remaining(2, groups)
    work.screened("cheap", 1.0)
    work.kept("cheap", 0)
    guess = 2 * 4 * (1 + KEPT[True]) * COSTLY * 0.1
    assert work.left == pytest.approx(guess + LAST_FITS * (1 + guess))
    work.screened("one", 4.0)
    work.kept("one", 0)
    assert work.left == pytest.approx((1 + LAST_FITS) * 4 * (1 + KEPT[True]) + LAST_FITS * 5)


def test_a_search_reports_work_until_little_is_left():
    rng, calls = np.random.default_rng(0), []
    X, tasks = rng.normal(size=(40, 2)), np.repeat(["a", "b"], 20)
    model = KinRegressor("linear", cv=2, random_state=0, callback=lambda done, of: calls.append(done / of))
    model.fit(X, X[:, 0] + rng.normal(size=40), tasks=tasks)
    assert len(calls) >= 4 and all(0 < share < 1 for share in calls)
    assert calls[-1] == pytest.approx(1 / (1 + LAST_FITS))
