"""Gram matrices, as stacks and as operators."""

from .build import (
    GramPlan,
    KernelBank,
    RawGrams,
    build_grams,
    check_kernels,
    device_grams,
    plan_grams,
    raw_grams,
    scale_grams,
    scales_on_device,
    task_dimensions,
)
from .coupled import CoupledGrams, Grams, on_device
from .operator import arrays_on
from .row_kernels import BLOCK_BYTES, HeldOut, RowKernels
from .stack import GramStack, SharedGrams, TaskGrams, batch_bytes, runs

__all__ = [
    "BLOCK_BYTES",
    "CoupledGrams",
    "GramPlan",
    "GramStack",
    "Grams",
    "HeldOut",
    "KernelBank",
    "RawGrams",
    "RowKernels",
    "SharedGrams",
    "TaskGrams",
    "arrays_on",
    "batch_bytes",
    "build_grams",
    "check_kernels",
    "device_grams",
    "on_device",
    "plan_grams",
    "raw_grams",
    "runs",
    "scale_grams",
    "scales_on_device",
    "task_dimensions",
]
