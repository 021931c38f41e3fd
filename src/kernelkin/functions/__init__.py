"""What a fit leaves behind: the functions of all tasks, without any training Gram matrix."""

from .expansion import Expansion, make_expansion
from .linear import LinearFunctions
from .nearest import InputIndex
from .of_model import function_values
from .remote import BlockFunctions, RemoteFunctions
from .tasks import NewTask, Share, TaskFunctions, task_functions

__all__ = [
    "BlockFunctions",
    "Expansion",
    "InputIndex",
    "LinearFunctions",
    "NewTask",
    "RemoteFunctions",
    "Share",
    "TaskFunctions",
    "function_values",
    "make_expansion",
    "task_functions",
]
