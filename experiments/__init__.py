"""The paper's experiments: their definitions, and one engine that runs them. See `python -m experiments --help`."""

from __future__ import annotations

from importlib import import_module

from .protocol import Protocol

# Name -> module with its PROTOCOL. Modules are imported on demand, since each imports every model.
EXPERIMENTS = {
    "stock": "stock",
    "stock-as-published": "as_published",
    "landmine": "landmine",
    "sarcos": "sarcos",
    "school": "school",
    "drugs": "drugs",
    "flowers": "flowers",
    "caltech": "caltech",
    "tox21": "tox21",
    "toxcast": "toxcast",
    "sigrist": "sigrist",
}


def find_protocol(name: str) -> Protocol:
    """The experiment of this name; with "-quick" appended, its reduced version."""
    from .quick import shorten

    full = name.removesuffix("-quick")
    if full not in EXPERIMENTS:
        raise ValueError(f"no experiment is named {name!r}; choose from {', '.join(EXPERIMENTS)}")
    protocol: Protocol = import_module(f".{EXPERIMENTS[full]}", __package__).PROTOCOL
    return protocol if full == name else shorten(protocol)


__all__ = ["EXPERIMENTS", "Protocol", "find_protocol"]
