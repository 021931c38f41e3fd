"""BLAS kept to one thread while any fit is running.

Many small BLAS calls suffer badly from oversubscription, and a fixed number of threads makes results the same to the
bit for any `n_jobs`. The number of BLAS threads is a setting of the whole process, so fits that overlap in time share
one limit: the first one sets it, the last one restores what was there before.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np


@cache
def _controller() -> Any:
    """Find the BLAS libraries of this process, once: a search takes as long as a small fit."""
    from threadpoolctl import ThreadpoolController

    import_module("scipy.linalg")  # it brings a BLAS of its own
    return ThreadpoolController().select(user_api="blas")


def _take_control() -> None:
    """Let any thread set limits next.

    From release 3.7 on, threadpoolctl lets one thread at a time set the number of threads, and silently ignores all
    others: the fits that overlap may begin and end in different threads.
    """
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


class SingleThreadedBLAS:
    """`with SingleThreadedBLAS():` keeps BLAS to one thread; blocks may nest and overlap in several threads.

    Numbers that underflow are zero inside, as they are by NumPy's default, whatever a user's `np.seterr` says.
    """

    # Shared by all blocks of the process.
    lock = Lock()
    count = 0
    limiter: Any = None

    def __init__(self) -> None:
        self._errors = np.errstate(under="ignore")

    def __enter__(self) -> SingleThreadedBLAS:
        self._errors.__enter__()
        shared = SingleThreadedBLAS
        with shared.lock:
            shared.count += 1
            if shared.count == 1:
                _take_control()
                shared.limiter = _controller().limit(limits=1, user_api="blas")
        return self

    def __exit__(self, *exception: Any) -> None:
        self._errors.__exit__(*exception)
        shared = SingleThreadedBLAS
        with shared.lock:
            shared.count -= 1
            if shared.count == 0 and shared.limiter is not None:
                _take_control()
                shared.limiter.restore_original_limits()
                _take_control()
                shared.limiter = None

    @classmethod
    def reset(cls) -> None:
        """Start anew, as a forked child must: it has none of the parent's other threads."""
        cls.lock, cls.count, cls.limiter = Lock(), 0, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SingleThreadedBLAS.reset)
