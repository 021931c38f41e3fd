"""The search of KinRegressor: the order of what is tried, what is dropped, and how it ends early."""

import pickle

import numpy as np
import pytest

from kernelkin import KinClassifier, KinRegressor
from kernelkin.auto import jobs as search_jobs
from kernelkin.auto.candidates import make_candidates
from kernelkin.auto.search import make_waves
from kernelkin.data import read_training
from kernelkin.fitting import Regression
from kernelkin.model_selection.fold_fits import Deadline
from short_search import PLACE, cheap_candidates, few_candidates, small_tasks


def test_the_number_of_processes_and_a_cache_change_nothing(tmp_path):
    X, y, tasks = small_tasks(T=2, n=14, d=2)
    models = [
        KinRegressor("auto", cv=2, random_state=0, **options).fit(X, y, tasks=tasks)
        for options in ({}, {"n_jobs": 2, "cache": tmp_path}, {"cache": tmp_path})
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict(X, tasks=tasks), models[0].predict(X, tasks=tasks))
        np.testing.assert_array_equal(model.search_results_["error"], models[0].search_results_["error"])
    assert list(tmp_path.iterdir())


def test_kernels_may_become_known_while_a_job_is_pickled():
    class Learned:
        """Stands for kernels; another result arrives while it is pickled."""

        def __reduce__(self):
            known["third"] = []
            return str, ("kernels",)

    known = search_jobs.KnownKernels(first=Learned(), second=[])
    assert pickle.loads(pickle.dumps(known)) == {"first": "kernels", "second": []}
    assert list(known) == ["first", "second", "third"]


def test_candidates_that_are_dropped_would_have_had_no_weight(monkeypatch):
    monkeypatch.setattr(PLACE, cheap_candidates)
    rng = np.random.default_rng(9)
    X, tasks = rng.normal(size=(200, 6)), np.repeat([0, 1], 100)
    y = np.sin(3 * X[:, 2]) + 0.3 * rng.normal(size=200)
    raced = KinRegressor(random_state=0).fit(X, y, tasks=tasks).search_results_
    # Nothing is certain any more, so that nothing is dropped.
    monkeypatch.setattr("kernelkin.auto.search.CERTAIN", np.inf)
    full = KinRegressor(random_state=0).fit(X, y, tasks=tasks).search_results_
    dropped = set(zip(raced["candidate"][raced["n_folds"] == 1], raced["C"][raced["n_folds"] == 1], strict=True))
    assert len(dropped) > 20
    assert (full["n_folds"] == 5).all()
    weight = dict(zip(zip(full["candidate"], full["C"], strict=True), full["weight"], strict=True))
    assert not any(weight[trial] for trial in dropped)


def test_a_grid_is_extended_where_its_end_is_best():
    X, _, tasks = small_tasks(T=2, n=40, d=2)
    y = np.sin(3 * X[:, 0])  # without noise, for which no C is large enough
    table = KinRegressor("auto", cv=2, random_state=0).fit(X, y, tasks=tasks).search_results_
    assert table["C"].max() > 1e3


def test_of_machines_that_are_the_same_the_one_with_the_least_c_is_taken(monkeypatch):
    monkeypatch.setattr(PLACE, few_candidates)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    y = np.sign(X @ rng.normal(size=(2, 2))).astype(int)
    model = KinClassifier(["linear", "rbf"], cv=2, random_state=0).fit(X, y)
    table = model.search_results_
    own = table["candidate"] == model.best_candidate_
    # From some C on no margin is violated: the error does not change.
    np.testing.assert_allclose(table["error"][own & (table["C"] >= 1000)], model.best_error_, rtol=1e-6)
    assert table["C"][own].max() > model.best_C_ == 1000


def test_groups_are_tried_in_waves_and_costly_ones_last():
    X, y, tasks = small_tasks()
    task_data = read_training(X, y, tasks, None, classification=False)
    candidates = make_candidates(task_data, Regression())
    first, cheap, costly = make_waves(candidates, first_alone=True)
    assert make_waves(candidates, first_alone=False) == [[*first, *cheap], costly]
    assert first == [[candidate for candidate in candidates if candidate.group == candidates[0].group]]
    assert sum(len(group) for wave in (first, cheap, costly) for group in wave) == len(candidates)
    assert not any(candidate.is_costly for group in cheap for candidate in group)
    names = [candidate.name for group in costly for candidate in group]
    assert all("common part" in name or name.startswith(("MTFL", "one function")) for name in names)


def test_a_time_limit_stops_after_the_first_group():
    X, y, tasks = small_tasks(T=2, n=12, d=2)
    with pytest.warns(UserWarning, match=r"time_limit=1e-06 reached: \d+ groups of candidates were not tried"):
        model = KinRegressor(random_state=0, time_limit=1e-6).fit(X, y, tasks=tasks)
    assert not model.is_complete_
    assert "was not complete" in model.explain()
    assert np.isfinite(model.predict(X, tasks=tasks)).all()


def test_a_time_limit_ends_fits_at_work_and_only_complete_ones_are_used(monkeypatch):
    X, y, tasks = small_tasks(T=2, n=12, d=2)
    asked = []

    def over_after_a_while(deadline):
        asked.append(deadline.at)
        return deadline.at is not None and sum(at is not None for at in asked) > 40

    monkeypatch.setattr(Deadline, "is_over", over_after_a_while)
    with pytest.warns(UserWarning, match=r"time_limit=1000 reached: \d+ groups of candidates were not tried"):
        model = KinRegressor(random_state=0, time_limit=1000).fit(X, y, tasks=tasks)
    table = model.search_results_
    assert table["n_folds"][table["weight"] > 0].tolist() == [5] * len(model.members_)


def test_an_interrupt_keeps_what_is_complete(monkeypatch):
    X, y, tasks = small_tasks(T=2, n=12, d=2)
    run_job, calls = search_jobs.run_job, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 7:  # five groups were screened, and one of them was tried on all folds
            raise KeyboardInterrupt
        return run_job(*arguments)

    monkeypatch.setattr(search_jobs, "run_job", interrupted)
    with pytest.warns(UserWarning, match=r"interrupted: \d+ groups of candidates were not tried"):
        model = KinRegressor(random_state=0).fit(X, y, tasks=tasks)
    table = model.search_results_
    assert table["n_folds"][table["weight"] > 0].tolist() == [5] * len(model.members_)
    assert not model.is_complete_


def test_with_a_cache_an_interrupt_ends_the_fit_and_the_next_one_continues(monkeypatch, tmp_path):
    monkeypatch.setattr(PLACE, cheap_candidates)
    X, y, tasks = small_tasks(T=2, n=12, d=2)
    run_job, calls = search_jobs.run_job, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run_job(*arguments)

    model = KinRegressor(cv=2, random_state=0, cache=tmp_path / "parts")
    with monkeypatch.context() as patch:
        patch.setattr(search_jobs, "run_job", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y, tasks=tasks)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir()}
    assert kept
    whole = KinRegressor(cv=2, random_state=0).fit(X, y, tasks=tasks)
    np.testing.assert_array_equal(model.fit(X, y, tasks=tasks).predict(X, tasks=tasks), whole.predict(X, tasks=tasks))
    assert kept == {path: path.stat().st_mtime_ns for path in kept}, "a part that was kept was computed again"
