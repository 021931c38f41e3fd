"""Gram matrices: stacks and operators. Nothing outside this package touches their memory."""

from .arrays import arrays_on
from .build import (
    KernelBank,
    RawGrams,
    build_grams,
    check_kernels,
    raw_grams,
    scale_grams,
    task_block_grams,
    task_dimensions,
)
from .collections import Grams, SeparateGrams, SharedGrams, TaskGrams, batch_bytes
from .coupled import CoupledGrams, on_device
from .device_build import device_grams, scales_on_device
from .heldout import HeldOut, held_out
from .plan import GramPlan, plan_grams
from .row_kernels import BLOCK_BYTES, RowKernels
from .stack import GramStack

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
    "SeparateGrams",
    "SharedGrams",
    "TaskGrams",
    "arrays_on",
    "batch_bytes",
    "build_grams",
    "check_kernels",
    "device_grams",
    "held_out",
    "on_device",
    "plan_grams",
    "raw_grams",
    "scale_grams",
    "scales_on_device",
    "task_block_grams",
    "task_dimensions",
]
