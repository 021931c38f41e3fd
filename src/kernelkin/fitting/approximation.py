"""What a fit says where the part that coupled tasks share is approximate."""

from __future__ import annotations

from ..exceptions import ApproximationWarning
from ..grams import KernelBank


def approximation_warnings(bank: KernelBank, shared_rank: int | str | None) -> list[tuple[str, type[Warning]]]:
    """Warn where the shared part is approximate and nobody asked for that."""
    if bank.link_factors is None or shared_rank != "auto":
        return []
    missing = bank.link_factors.missing()
    worst = int(missing.argmax())
    n_rows, rank = bank.link_factors.n_rows, bank.link_factors.rank
    message = (
        f"the part that tasks share is approximated by factors of {rank} columns for {n_rows} rows, which lack up to "
        f"{missing[worst]:.2g} of a kernel's trace ({bank.names[worst]}; shared_error_ has all): a higher shared_rank "
        f"is more exact, shared_rank=None is exact and takes {n_rows} x {n_rows} matrices"
    )
    return [(message, ApproximationWarning)]
