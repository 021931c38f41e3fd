"""Couplings: parts of the function that several tasks share, and what they cost.

Coupling j has a T x T positive semi-definite matrix M_j with unit diagonal on the tasks it touches. Its part of the
kernel is `sum_k b_kj M_j[t, t'] k_k(x, x')`: each coupling is one more column of the kernel weights B.
"""

from .coupling import Coupling, connected_tasks, width
from .read import COMMON, new_kernels, read_couplings
from .task_features import plain_task_features, read_task_features
from .task_kernels import TaskKernel, TaskTable, level_weights

__all__ = [
    "COMMON",
    "Coupling",
    "TaskKernel",
    "TaskTable",
    "connected_tasks",
    "level_weights",
    "new_kernels",
    "plain_task_features",
    "read_couplings",
    "read_task_features",
    "width",
]
