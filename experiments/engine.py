"""Run an experiment: every (setting, run, model) is a unit of its own, stored as soon as it is done.

Units are independent and seeded by their run, so the table is the same for any number of processes, and whether they
ran in one go or were stopped and continued.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .metrics import predict, score_by_task
from .protocol import Metric, Model, Protocol, Setting
from .selection import fit_best
from .store import Result, Store


@dataclass(frozen=True)
class Unit:
    """One model in one run of one setting."""

    setting: Setting
    model: Model
    run: int

    @property
    def fingerprint(self) -> str:
        """Changes with the definition of the unit, so that results of an older definition are not used."""
        model = self.model
        # scikit-learn shows the parameters that are not the default ones.
        parts: tuple = (self.setting, model.estimator.__repr__(N_CHAR_MAX=1_000_000), model.grid, model.n_splits)
        if model.chooser is not None:
            parts = (*parts, model.chooser.__repr__(N_CHAR_MAX=1_000_000))
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


Progress = Callable[[int, int, float, str], None]


def list_units(protocol: Protocol, runs: int, models: Iterable[str] | None = None) -> list[Unit]:
    """All units, run by run, so that an interrupted experiment has complete runs."""
    wanted = None if models is None else set(models)
    return [
        Unit(setting, model, run)
        for run in range(runs)
        for setting in protocol.settings
        for model in protocol.models(setting)
        if (wanted is None or model.name in wanted)
        if all(limit is None or run < limit for limit in (setting.runs, model.runs))
    ]


def run_protocol(
    protocol: Protocol,
    store: Store,
    runs: int,
    models: Iterable[str] | None = None,
    n_jobs: int = 1,
    progress: Progress = lambda done, total, left, text: None,
) -> list[Result]:
    """Run the units that are not stored yet, and return the results of all units in order."""
    store.folder.prepare()
    units = list_units(protocol, runs, models)
    known = {i: store.load(u.setting.name, u.model.name, u.run, u.fingerprint) for i, u in enumerate(units)}
    results = {i: result for i, result in known.items() if result is not None}
    clock = _Clock(units, results)
    if results:
        progress(len(results), len(units), clock.left(results), f"{len(results)} found in {store.folder.path}")
    missing = [i for i in range(len(units)) if i not in results]
    if missing:
        protocol.prepare()
    for i, result in _perform(protocol, [(i, units[i]) for i in missing], n_jobs):
        store.save(result)
        results[i] = result
        text = f"{result.setting}, run {result.run}, {result.model}: {result.score:.4f} in {result.seconds:.1f} s"
        progress(len(results), len(units), clock.left(results), text)
    return [results[i] for i in range(len(units))]


def _perform(protocol: Protocol, work: list[tuple[int, Unit]], n_jobs: int) -> Iterator[tuple[int, Result]]:
    if n_jobs == 1 or len(work) < 2:
        for i, unit in work:
            yield i, run_unit(protocol, unit)
        return
    import multiprocessing

    # Spawned, since processes forked from one with threads may deadlock. Protocols hold functions and cannot be
    # pickled: a worker looks its own up by name.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_begin_worker, initargs=(os.getpid(),)) as pool:
        waiting: dict[Future, int] = {pool.submit(_run_remotely, protocol.name, _address(u)): i for i, u in work}
        try:
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        except BrokenProcessPool:
            raise RuntimeError(
                "a process was killed, perhaps for lack of memory; finished runs are kept, and the same command "
                "continues from there"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _address(unit: Unit) -> tuple[str, str, int]:
    return unit.setting.name, unit.model.name, unit.run


def _run_remotely(protocol_name: str, address: tuple[str, str, int]) -> Result:
    from . import find_protocol

    protocol = find_protocol(protocol_name)
    name, model, run = address
    setting = next(setting for setting in protocol.settings if setting.name == name)
    return run_unit(protocol, Unit(setting, protocol.model(setting, model), run))


def _begin_worker(parent: int) -> None:
    """Let this process end when its parent was killed."""
    Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def run_unit(protocol: Protocol, unit: Unit) -> Result:
    """Choose parameters on the training rows, fit, and score on the test rows."""
    split = protocol.split(unit.setting, unit.run)
    forget_peak_memory()
    # One thread, also where there is one process: results of several threads differ in the last bits.
    with _counted_warnings() as counts, threadpool_limits(1):
        # Processor time, which other work on the machine changes least.
        began = time.process_time()
        fitted, chosen = fit_best(unit.model, split, protocol.metric, seed=unit.run)
        seconds = time.process_time() - began
        metrics = {metric.method: metric for metric in (protocol.metric, *protocol.further)}
        predicted = {
            method: predict(fitted, metric, split.X_test, split.tasks_test) for method, metric in metrics.items()
        }

    def judge(metric: Metric) -> dict[str, float]:
        return score_by_task(metric, split.y_test, predicted[metric.method], split.tasks_test, split.task_names)

    return Result(
        setting=unit.setting.name,
        model=unit.model.name,
        run=unit.run,
        scores=judge(protocol.metric),
        seconds=seconds,
        chosen=chosen,
        warnings=dict(counts),
        effective_rank=_number(getattr(fitted, "effective_rank_", None)),
        relative_gap=_relative_gap(fitted),
        fingerprint=unit.fingerprint,
        figures={metric.name: float(np.mean(list(judge(metric).values()))) for metric in protocol.further},
        memory=peak_memory(),
    )


def forget_peak_memory() -> None:
    """Let the largest memory of this process be counted from now on, where the system can do that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> float | None:
    """The largest memory of this process, in MiB; None where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    return None if found is None else int(found[1]) / 1024


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _relative_gap(fitted: Any) -> float | None:
    gap, objective = (getattr(fitted, name, None) for name in ("duality_gap_", "objective_"))
    return None if gap is None or objective is None else float(gap / max(abs(objective), np.finfo(float).tiny))


@contextmanager
def _counted_warnings() -> Iterator[Counter[str]]:
    """Count warnings (a collapse, a solver that stopped early) instead of printing them: they belong to the result."""
    counts: Counter[str] = Counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield counts
    counts.update(warning.category.__name__ for warning in caught)


class _Clock:
    """Estimated time left, from what each model took so far and from the pace of this run."""

    def __init__(self, units: list[Unit], stored: Iterable[int]) -> None:
        self.units, self.stored = units, set(stored)
        self._began = time.perf_counter()

    def left(self, results: dict[int, Result]) -> float:
        """Seconds."""
        seen: dict[tuple[str, str], list[float]] = {}
        for result in results.values():
            seen.setdefault((result.setting, result.model), []).append(result.seconds)
        typical = float(np.mean([result.seconds for result in results.values()]))
        todo = [(u.setting.name, u.model.name) for i, u in enumerate(self.units) if i not in results]
        work = sum(float(np.mean(seen[key])) if key in seen else typical for key in todo)
        done = sum(result.seconds for i, result in results.items() if i not in self.stored)
        pace = (time.perf_counter() - self._began) / max(done, 1e-3) if len(results) > len(self.stored) else 1.0
        return work * pace
