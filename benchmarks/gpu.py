"""Many targets on a GPU: one fit to relative gap 1e-3, beside himalaya on the same Gram matrices and the same device.

`python -m benchmarks gpu -- --device cuda` runs the wide problem (3,000 rows, 10,000 targets, 6 kernels), then 100,000
targets; `--device cpu --rows 500 --targets 200` is a small version. Gram matrices are there already; their copy to the
device is in the times of both. Each figure is of the second of two runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelkin import MKMTRLRegressor

from . import peers
from .scale import block_problem

C, MU = 0.1, 0.1


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu --", description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--kernels", type=int, default=6)
    parser.add_argument("--draws", type=int, default=100, help="draws of himalaya's random search")
    parser.add_argument("--many", type=int, default=100_000, help="targets of the largest fit; 0 leaves it out")
    options = parser.parse_args(arguments)
    train, test, Y, Yq = block_problem(options.rows, options.targets, options.kernels, 1000)
    ours = _ours(options.device)
    print(f"| {options.rows} rows, {options.targets} targets, {options.kernels} kernels | s | held-out R2 | gap |")
    print("|---|---|---|---|")
    model, seconds = _twice(lambda: ours.fit(np.moveaxis(train, 0, 2), Y), options.device)
    gap = model.duality_gap_ / model.objective_
    print(f"| kernelkin, one fit | {seconds:.2f} | {_r2(model.predict(np.moveaxis(test, 0, 2)), Yq):.4f} | {gap:.1e} |")
    _print_phases(model)
    if peers.HAS_HIMALAYA and options.draws:
        found, seconds = _twice(lambda: _himalaya(train, Y, options.draws, options.device), options.device)
        predicted = np.asarray(found.predict(test).cpu()) + Y.mean(axis=0)
        print(f"| himalaya, random search, {options.draws} draws | {seconds:.2f} | {_r2(predicted, Yq):.4f} | |")
    if options.many:
        repeats = -(-options.many // options.targets)
        wide = np.tile(Y, (1, repeats))[:, : options.many]
        wide += 0.1 * np.random.default_rng(1).normal(size=wide.shape)
        model, seconds = _once(lambda: ours.fit(np.moveaxis(train, 0, 2), wide), options.device)
        print(f"| kernelkin, {options.many} targets | {seconds:.2f} | | {model.duality_gap_ / model.objective_:.1e} |")


def _ours(device: str) -> MKMTRLRegressor:
    return MKMTRLRegressor("precomputed", C=C, mu=MU, device=device)


def _print_phases(model: MKMTRLRegressor) -> None:
    seconds = ", ".join(f"{second:.2f}" for second in model.history_["seconds"])
    print(f"\nkernelkin: {model.n_iter_} evaluations, done at {seconds} s of the solver's time\n")


def _himalaya(train: np.ndarray, Y: np.ndarray, draws: int, device: str) -> Any:
    from himalaya.backend import set_backend
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    backend = set_backend("torch_cuda" if device.startswith("cuda") else "torch")
    options = {"n_iter": draws, "alphas": np.logspace(-3, 5, 17), "n_targets_batch": 2000, "progress_bar": False}
    model = MultipleKernelRidgeCV(
        kernels="precomputed", solver="random_search", solver_params=options, cv=3, random_state=0
    )
    return model.fit(backend.asarray(train, dtype="float32"), backend.asarray(Y - Y.mean(axis=0), dtype="float32"))


def _once(run: Callable[[], Any], device: str) -> tuple[Any, float]:
    began = time.perf_counter()
    result = run()
    if device.startswith("cuda"):
        import torch

        torch.cuda.synchronize()
    return result, time.perf_counter() - began


def _twice(run: Callable[[], Any], device: str) -> tuple[Any, float]:
    _once(run, device)
    return _once(run, device)


def _r2(predicted: np.ndarray, Y: np.ndarray) -> float:
    return float(np.mean(1 - np.square(predicted - Y).sum(axis=0) / np.square(Y - Y.mean(axis=0)).sum(axis=0)))
