"""Compilation with numba: one signature per function, cached on disk if possible.

Import this module only when compiled code is about to run: numba is slow to import.

numba checks only the file of the function called from Python to decide whether its cache is valid. So a `compiled`
function and all its `helper` functions and constants must be in one file.
"""

from __future__ import annotations

import functools
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": False, "error_model": "numpy"}
_announced: set[str] = set()
_lock = threading.RLock()

# A function that is called only from compiled code: it is compiled into its callers and has no cache. It cannot be
# called from Python, which makes compilation faster.
_HELPER = _OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
helper = njit(**_HELPER)

# A helper with one caller, inlined before compilation. Other helpers are optimised once alone and again in every
# caller, which is slow if calls are deeply nested.
inlined_helper = njit(**_HELPER, inline="always")


def compiled(signature: str, purpose: str, seconds: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function for one signature in numba's notation, at its first call.

    Arguments of other types raise an error, because a second compilation would take as long as the first. `purpose`,
    such as "the SVM solver", and approximate `seconds` are for a message printed once before compilation.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        dispatcher = None

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            nonlocal dispatcher
            if dispatcher is None:
                with _lock:
                    if dispatcher is None:
                        dispatcher = _load_or_compile(function, signature, purpose, seconds)
            return dispatcher(*args)

        return call

    return decorate


def _load_or_compile(function: Callable[..., Any], signature: str, purpose: str, seconds: int) -> Callable[..., Any]:
    """Load the function from the cache, or compile and cache it, or compile it without a cache if that fails."""
    for caching in ("cached for later runs", "not cached: set NUMBA_CACHE_DIR to a writable directory for later runs"):
        dispatcher = njit(**_OPTIONS)(function)
        try:
            if caching.startswith("cached"):
                dispatcher.enable_caching()
            with event.install_listener("numba:compile", _Announcement(purpose, seconds, caching)):
                dispatcher.compile(signature)
        except RuntimeError:  # neither the package's directory nor the home directory is writable
            continue
        except (OSError, EOFError, pickle.UnpicklingError):
            if not dispatcher.overloads:  # a damaged cache
                continue
            # Otherwise it was compiled but could not be saved, for example on a full disk.
        break
    dispatcher.disable_compile()
    return dispatcher


class _Announcement(event.Listener):
    """Print one line when numba starts to compile a function that is not in the cache."""

    def __init__(self, purpose: str, seconds: int, caching: str) -> None:
        self.purpose = purpose
        self.line = f"kernelkin: compiling {purpose} (first use, about {seconds} s; {caching})"

    def on_start(self, event: Any) -> None:
        if self.purpose not in _announced:
            _announced.add(self.purpose)
            print(self.line, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass
