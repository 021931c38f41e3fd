"""Many targets on a GPU: products, one fit, the search for each target, himalaya beside it, and 100,000 targets.

`python -m benchmarks gpu --device cuda --json FILE` runs the wide problem (3,000 rows, 10,000 targets, 6 kernels);
`--device cpu --small` is a small version. Every part is measured by itself, and what is known is written after each, so
that a part that fails takes nothing with it. Gram matrices are there already; their copy to the device is in the
times of all. A first run of each fit is profiled, the second is timed.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import os
import platform
import pstats
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, MKMTRLRegressorCV
from kernelkin.paper.grams.stack import SharedGrams
from kernelkin.paper.solvers import solve

from . import peers
from .gpu_rates import decomposition_seconds, iteration_parts, product_rates, wait
from .scale import block_problem, class_grams

C, MU = 0.1, 0.1
PARTS = ("rates", "fit", "search", "himalaya", "many", "svm", "many_search")


class Bench:
    """The wide problem on a device, and what was measured on it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device, self.began = options, options.device, time.perf_counter()
        self.results: dict[str, Any] = {"options": vars(options), "machine": _machine(options.device)}
        self.train, self.test, self.Y, self.Yq = block_problem(
            options.rows, options.targets, options.kernels, 1000, options.seed
        )
        self.X, self.Xq = np.moveaxis(self.train, 0, 2), np.moveaxis(self.test, 0, 2)

    def run(self) -> None:
        """Measure all parts, while there is time; write what is known after each."""
        for name in self.options.parts:
            spent = time.perf_counter() - self.began
            if spent > self.options.limit:
                self.results[name] = {"left out": f"{spent:.0f} s were spent"}
            else:
                try:
                    self.results[name] = getattr(self, name)()
                except BaseException as error:
                    self.results[name] = {"error": repr(error), "traceback": traceback.format_exc()}
                    if isinstance(error, KeyboardInterrupt):
                        raise
            self.results[name]["done at"] = time.perf_counter() - self.began
            _show(name, self.results[name])
            if self.options.json is not None:
                Path(self.options.json).write_text(json.dumps(self.results, indent=1, default=str), encoding="utf-8")
            _release(self.device)

    def rates(self) -> dict[str, Any]:
        n, width = self.options.rows, self.options.targets
        return {
            "TFLOP/s of products": product_rates(self.device, n, width),
            "seconds of decompositions": decomposition_seconds(self.device, n),
            "iteration": iteration_parts(self.device, self.train, self.Y),
        }

    def fit(self) -> dict[str, Any]:
        model = MKMTRLRegressor("precomputed", C=C, mu=MU, device=self.device)
        return self._fitted(lambda: model.fit(self.X, self.Y))

    def search(self) -> dict[str, Any]:
        model = MKMTRLRegressorCV("precomputed", per_task=True, device=self.device)
        found = self._fitted(lambda: model.fit(self.X, self.Y))
        found["seconds of the search"] = model.search_time_
        found["tasks by mix"] = np.bincount(model.task_choices_[:, 0]).tolist()
        found["tasks by strength"] = np.bincount(model.task_choices_[:, 1]).tolist()
        return found

    def himalaya(self) -> dict[str, Any]:
        if not peers.HAS_HIMALAYA:
            return {"left out": "himalaya is not installed"}
        _himalaya(self.train, self.Y, 2, self.device)
        model, seconds = self._timed(lambda: _himalaya(self.train, self.Y, self.options.draws, self.device))
        values = np.asarray(model.predict(self.test).cpu()) + self.Y.mean(axis=0)
        return {"seconds": seconds, "draws": self.options.draws, "R2": _r2(values, self.Yq)}

    def svm(self) -> dict[str, Any]:
        """One-vs-rest on shared Gram matrices: the solver on the device, and in main memory on one thread."""
        per_class, n_classes, n_kernels = (6, 5, 3) if self.options.small else (30, 102, 38)
        X, Y = class_grams(per_class, n_classes, n_kernels)
        MKMTRLClassifier(C=1.0).fit(self.Yq[:30, :2], np.sign(self.Yq[:30, :3]))  # compiles
        found: dict[str, Any] = {"tasks": n_classes, "rows": len(Y), "kernels": n_kernels}
        stack = None
        for name, device in (("the device, first", self.device), ("the device", self.device), ("main memory", None)):
            model = MKMTRLClassifier("precomputed", C=10.0, device=device)
            plan = model.specification().plan(model.training_data(X, Y))
            if stack is None:
                stack = plan.grams()[0].stack
            grams = SharedGrams(stack, plan.data.rows)
            solution, seconds = self._timed(lambda p=plan, g=grams: solve(p.problem(g), units=p.units))
            found[name] = {"seconds": seconds, "objective": solution.primal, "gap": solution.relative_gap}
            found[name]["seconds after each evaluation"] = np.asarray(solution.history["seconds"]).tolist()
        return found

    def many(self) -> dict[str, Any]:
        model = MKMTRLRegressor("precomputed", C=C, mu=MU, device=self.device)
        return self._of_many(lambda Y: model.fit(self.X, Y))

    def many_search(self) -> dict[str, Any]:
        model = MKMTRLRegressorCV("precomputed", per_task=True, device=self.device)
        return self._of_many(lambda Y: model.fit(self.X, Y))

    def _of_many(self, fit: Callable[[np.ndarray], Any]) -> dict[str, Any]:
        """One fit, profiled, of the targets many times over with noise of their own."""
        count, rng = self.options.many, np.random.default_rng(1)
        Y = np.tile(self.Y, (1, -(-count // self.Y.shape[1])))[:, :count]
        Y += 0.1 * rng.standard_normal(size=Y.shape, dtype=np.float32)
        model, seconds, profile = self._profiled(lambda: fit(Y))
        some = slice(0, min(200, self.Yq.shape[1]))
        # By hand: predictions of all targets would take longer than the fit.
        a, b = np.hstack(list(model.dual_coef_[some])), model.kernel_weights_[some].T
        values = sum(self.test[k] @ (b[k] * a) for k in range(len(b))) + model.intercept_[some]
        r2 = _r2(values, self.Yq[:, some])
        return {"seconds": seconds, "targets": count, "R2 of some": r2, **_facts(model), "profile": profile}

    def _fitted(self, fit: Callable[[], Any]) -> dict[str, Any]:
        _, first, profile = self._profiled(fit)
        model, seconds = self._timed(fit)
        predicted, apart = self._timed(lambda: model.predict(self.Xq))
        found = {"seconds": seconds, "R2": _r2(predicted, self.Yq), "seconds of predict": apart, **_facts(model)}
        return found | {"seconds of the first run, profiled": first, "profile": profile}

    def _profiled(self, run: Callable[[], Any]) -> tuple[Any, float, list[str]]:
        profile = cProfile.Profile()
        profile.enable()
        try:
            result, seconds = self._timed(run)
        finally:
            profile.disable()
        text = io.StringIO()
        pstats.Stats(profile, stream=text).sort_stats("cumulative").print_stats(70)
        lines = [line for line in text.getvalue().splitlines() if line.strip()]
        return result, seconds, [line.replace(os.getcwd(), ".")[:160] for line in lines]

    def _timed(self, run: Callable[[], Any]) -> tuple[Any, float]:
        wait(self.device)
        began = time.perf_counter()
        result = run()
        wait(self.device)
        return result, time.perf_counter() - began


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--kernels", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0, help="of the problem")
    parser.add_argument("--draws", type=int, default=100, help="draws of himalaya's random search")
    parser.add_argument("--many", type=int, default=100_000, help="targets of the largest fits")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which no further part is begun")
    parser.add_argument("--json", help="a file to write")
    parser.add_argument("--small", action="store_true", help="a version that takes seconds")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args(arguments)
    if options.small:
        options.rows, options.targets, options.draws, options.many = 200, 60, 3, 150
    Bench(options).run()


def _himalaya(train: np.ndarray, Y: np.ndarray, draws: int, device: str) -> Any:
    from himalaya.backend import set_backend
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    backend = set_backend("torch_cuda" if device.startswith("cuda") else "torch")
    options = {"n_iter": draws, "alphas": np.logspace(-3, 5, 17), "n_targets_batch": 2000, "progress_bar": False}
    model = MultipleKernelRidgeCV(
        kernels="precomputed", solver="random_search", solver_params=options, cv=3, random_state=0
    )
    return model.fit(backend.asarray(train, dtype="float32"), backend.asarray(Y - Y.mean(axis=0), dtype="float32"))


def _facts(model: Any) -> dict[str, Any]:
    """What a fit says of its own accuracy and time."""
    return {
        "gap": model.duality_gap_ / model.objective_,
        "evaluations": model.n_iter_,
        "seconds of the solver, after each evaluation": np.asarray(model.history_["seconds"]).tolist(),
    }


def column_blocks(n: int, n_tasks: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, 16) in four blocks of columns, and targets (n, T): unevenly weighted functions of these, and noise."""
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n, 16)), rng.uniform(size=(4, n_tasks)) ** 3
    Y = np.zeros((n, n_tasks))
    for k in range(4):
        along = X[:, 4 * k : 4 * k + 4] @ rng.normal(size=(4, n_tasks))
        Y += weights[k] * (np.sin(along) if k % 2 else along)
    return X, Y / Y.std(axis=0) + np.logspace(-0.7, 0.3, n_tasks) * rng.normal(size=Y.shape)


def _machine(device: str) -> dict[str, Any]:
    import torch

    found = {"torch": torch.__version__, "python": platform.python_version(), "cores": os.cpu_count()}
    if device.startswith("cuda"):
        found["device"] = torch.cuda.get_device_name(device)
    return found


def _release(device: str) -> None:
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()


def _show(name: str, found: dict[str, Any]) -> None:
    """Print a part without its profile."""
    print(f"\n## {name}", flush=True)
    for key, value in found.items():
        if key != "profile":
            print(f"- {key}: {value}", flush=True)


def _r2(predicted: np.ndarray, Y: np.ndarray) -> float:
    return float(np.mean(1 - np.square(predicted - Y).sum(axis=0) / np.square(Y - Y.mean(axis=0)).sum(axis=0)))
