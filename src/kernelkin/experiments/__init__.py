"""The paper's experiments: definitions, and one engine that runs them all."""

from __future__ import annotations

from importlib import import_module

from .protocol import Protocol

# Where each experiment is defined; looked up when asked for, since definitions import every model.
_PLACES = {
    "stock": "stock",
    "stock-as-published": "as_published",
    "landmine": "landmine",
    "sarcos": "sarcos",
    "school": "school",
}


def find_protocol(name: str) -> Protocol:
    """The experiment of this name; with "-quick" after it, the short version."""
    from .quick import shorten

    full = name.removesuffix("-quick")
    if full not in _PLACES:
        raise ValueError(f"no experiment is named {name!r}; there are {', '.join(_PLACES)}")
    protocol: Protocol = import_module(f".{_PLACES[full]}", __package__).PROTOCOL
    return protocol if full == name else shorten(protocol)


__all__ = ["Protocol", "find_protocol"]
