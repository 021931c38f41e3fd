"""Rates of products, decompositions and the parts of an iteration on a device of torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelkin.paper.grams.operator import Arrays, SharedOperator
from kernelkin.paper.problems.columns import Block, BlockSolution


def wait(device: str) -> None:
    """Wait until the device has done its work."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.synchronize()


def seconds(run: Callable[[], Any], device: str, repeats: int = 3) -> float:
    """The least time of some runs, after one that does not count."""
    run()
    found = []
    for _ in range(repeats):
        wait(device)
        began = time.perf_counter()
        run()
        wait(device)
        found.append(time.perf_counter() - began)
    return min(found)


def product_rates(device: str, n: int, width: int) -> dict[str, float]:
    """TFLOP/s of (n, n) @ (n, width) in double, single and coarse single precision."""
    import torch

    arrays, work, found = Arrays(device), 2e-12 * n * n * width, {}
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        A, V = torch.randn(n, n, device=device, dtype=dtype), torch.randn(n, width, device=device, dtype=dtype)
        found[name] = work / seconds(lambda A=A, V=V: A @ V, device)
        if dtype == torch.float32:
            with arrays.rough_products():
                found["TF32"] = work / seconds(lambda A=A, V=V: A @ V, device)
    return found


def decomposition_seconds(device: str, n: int) -> dict[str, float]:
    """Seconds of decompositions of one (n, n) matrix."""
    import torch

    X = torch.randn(n, n // 2, device=device, dtype=torch.float64)
    S = X @ X.T / n + 0.1 * torch.eye(n, device=device, dtype=torch.float64)
    single = S.float()
    return {
        "eigh float64": seconds(lambda: torch.linalg.eigh(S), device, 2),
        "eigh float32": seconds(lambda: torch.linalg.eigh(single), device, 2),
        "inverse float64": seconds(lambda: torch.linalg.inv(S), device, 2),
        "cholesky float64": seconds(lambda: torch.linalg.cholesky(S), device, 2),
    }


def iteration_parts(device: str, train: np.ndarray, Y: np.ndarray) -> dict[str, Any]:
    """Seconds and TFLOP/s of the parts of an iteration, on all columns of Y (n, T) at one time."""
    arrays = Arrays(device)
    operator = SharedOperator(arrays, arrays.array(train))
    (n_kernels, n, _), width = train.shape, Y.shape[1]
    b = arrays.array(np.random.default_rng(0).uniform(0.1, 1.0, size=(n_kernels, width)))
    cost = arrays.array(np.full((1, width), 0.1))
    block = Block(operator, b, arrays.array(Y - Y.mean(axis=0)), cost, None, True)
    rough, work = block.in_single_precision(), 2e-12 * n_kernels * n * n * width
    found: dict[str, Any] = {}
    with arrays.rough_products():
        found["apply, single"] = seconds(lambda: rough.apply(rough.y), device)
        found["system, single"] = seconds(lambda: rough.system(rough.y), device)
        found["precondition, single"] = seconds(lambda: rough.precondition(rough.y), device)
    found["scaling of columns, single"] = seconds(lambda: [rough.y * rough.b[k] for k in range(n_kernels)], device)
    found["apply, double"] = seconds(lambda: block.apply(block.y), device)
    found["images, double"] = seconds(lambda: operator.images(block.y), device)
    found["values, double"] = seconds(lambda: BlockSolution(block, block.y).primal, device)
    found["TFLOP/s of apply, single"] = work / found["apply, single"]
    found["TFLOP/s of apply, double"] = work / found["apply, double"]
    return found
