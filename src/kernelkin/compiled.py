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
_lock = threading.Lock()

# A function called from compiled code: it becomes part of its callers, and has no cache of its own. It cannot be called
# from Python, which saves a tenth of the time that compilation takes.
helper = njit(**_OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def compiled(signature: str, purpose: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function for one signature, at its first call.

    Parameters
    ----------
    signature : str
        Argument types as numba writes them, such as ``"(float64[:, ::1], int64[::1], float64)"``. Arguments of other
        types are an error: a second compilation would take seconds.
    purpose : str
        What the code is for, in the line printed before it is compiled, as in "the SVM solver". One line is printed
        for each purpose.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        dispatcher = None

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            nonlocal dispatcher
            if dispatcher is None:
                with _lock:
                    if dispatcher is None:
                        dispatcher = _load_or_compile(function, signature, purpose)
            return dispatcher(*args)

        return call

    return decorate


def _load_or_compile(function: Callable[..., Any], signature: str, purpose: str) -> Callable[..., Any]:
    """From the cache; compiled into the cache; compiled without one where that fails."""
    with event.install_listener("numba:compile", _Announcement(purpose)):
        for cache in (True, False):
            dispatcher = njit(**_OPTIONS)(function)
            try:
                if cache:
                    dispatcher.enable_caching()
                dispatcher.compile(signature)
            except RuntimeError as error:  # neither the package nor a home directory can be written to
                if "no locator available" not in str(error):
                    raise
            except (OSError, EOFError, pickle.UnpicklingError):  # a full disk, or a damaged cache
                if not cache and not dispatcher.overloads:
                    raise
            if dispatcher.overloads:
                break
        dispatcher.disable_compile()
        return dispatcher


class _Announcement(event.Listener):
    """Print one line when numba starts to compile, which it does not where the cache holds the function."""

    def __init__(self, purpose: str) -> None:
        self.purpose = purpose

    def on_start(self, event: Any) -> None:
        if self.purpose not in _announced:
            _announced.add(self.purpose)
            print(f"kernelkin: compiling {self.purpose} (first use, takes some seconds)", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass
