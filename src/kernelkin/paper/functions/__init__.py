"""What a fit leaves behind: the functions of all tasks, without any training Gram matrix."""

from .expansion import Expansion, make_expansion
from .nearest import InputIndex
from .tasks import LinearFunctions, NewTask, Share, TaskFunctions, function_values, task_functions

__all__ = [
    "Expansion",
    "InputIndex",
    "LinearFunctions",
    "NewTask",
    "Share",
    "TaskFunctions",
    "function_values",
    "make_expansion",
    "task_functions",
]
