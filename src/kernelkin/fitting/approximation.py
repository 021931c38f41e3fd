"""What a fit says where the part that coupled tasks share is approximate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..exceptions import ApproximationWarning
from ..grams import KernelBank
from .linked import SharedPart


def approximation_warnings(bank: KernelBank, shared_rank: int | str | None) -> list[tuple[str, type[Warning]]]:
    """Warn where the shared part is approximate and nobody asked for that."""
    factors = bank.link_factors
    if factors is None:
        return []
    return _warnings(bank.names, factors.missing(), factors.rank, factors.n_rows, shared_rank)


def shared_warnings(
    shared: SharedPart | None, names: Sequence[str], shared_rank: int | str | None
) -> list[tuple[str, type[Warning]]]:
    """Warn of the same in a fit in blocks of tasks."""
    if shared is None or shared.missing is None:
        return []
    return _warnings(names, shared.missing, shared.rank, shared.n_rows, shared_rank)


def _warnings(
    names: Sequence[str], missing: np.ndarray, rank: int, n_rows: int, shared_rank: int | str | None
) -> list[tuple[str, type[Warning]]]:
    if shared_rank != "auto":
        return []
    worst = int(missing.argmax())
    message = (
        f"the part that tasks share is approximated by factors of {rank} columns for {n_rows} rows, which lack up to "
        f"{missing[worst]:.2g} of a kernel's trace ({names[worst]}; shared_error_ has all): a higher shared_rank "
        f"is more exact, shared_rank=None is exact and takes {n_rows} x {n_rows} matrices"
    )
    return [(message, ApproximationWarning)]
