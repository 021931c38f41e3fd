"""Compilation with numba: one signature for each function, a cache on disk where one can be written.

Import this module only where compiled code is about to run: numba is slow to import.

numba decides by one file whether what it cached is still valid: the file of the function that is called from Python.
So a `compiled` function and all `helper` functions and constants it uses belong into one file.
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

# A function called from compiled code: it becomes part of its callers, and has no cache of its own. It cannot be called
# from Python, which saves some of the time that compilation takes.
_HELPER = _OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
helper = njit(**_HELPER)

# A helper with one caller, which numba puts into its caller before it compiles either. Other helpers are optimised once
# by themselves and again in every caller and its callers, which takes most of the time where calls are deeply nested.
inlined_helper = njit(**_HELPER, inline="always")


def compiled(signature: str, purpose: str, seconds: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function for one signature, at its first call.

    Parameters
    ----------
    signature : str
        Argument types as numba writes them, such as ``"(float64[:, ::1], int64[::1], float64)"``. Arguments of other
        types are an error: a second compilation would take as long as the first.
    purpose : str
        What the code is for, in the line printed before it is compiled, as in "the SVM solver". One line is printed
        for each purpose.
    seconds : int
        About how long compilation takes, for the same line.
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
    """Load the function from the cache, compile it into the cache, or compile it without one where that fails."""
    for caching in ("cached for later runs", "not cached: set NUMBA_CACHE_DIR to a writable directory for later runs"):
        dispatcher = njit(**_OPTIONS)(function)
        try:
            if caching.startswith("cached"):
                dispatcher.enable_caching()
            with event.install_listener("numba:compile", _Announcement(purpose, seconds, caching)):
                dispatcher.compile(signature)
        except RuntimeError:  # neither the package's directory nor a home directory can be written to
            continue
        except (OSError, EOFError, pickle.UnpicklingError):
            if not dispatcher.overloads:  # a damaged cache
                continue
            # Otherwise it was compiled, but could not be saved: a full disk.
        break
    dispatcher.disable_compile()
    return dispatcher


class _Announcement(event.Listener):
    """Print one line when numba starts to compile, which it does not where the cache holds the function."""

    def __init__(self, purpose: str, seconds: int, caching: str) -> None:
        self.purpose = purpose
        self.line = f"kernelkin: compiling {purpose} (first use, about {seconds} s; {caching})"

    def on_start(self, event: Any) -> None:
        if self.purpose not in _announced:
            _announced.add(self.purpose)
            print(self.line, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass
