"""More rounds of what the suite does to tables: python tests/robustness/fuzz.py --rounds 100000"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from robustness import fuzz_parquet, fuzz_tables


def fuzz_csv_tables(rounds: int, seed: int, folder: Path) -> Counter[str]:
    """Read so many changed tables."""
    found: Counter[str] = Counter()
    for number in range(rounds):
        rng = random.Random(f"{seed} {number}")
        with _named(number):
            found[fuzz_tables.try_table(*fuzz_tables.mutate(rng), folder)] += 1
    return found


def fuzz_parquet_tables(rounds: int, seed: int, folder: Path) -> Counter[str]:
    """Read so many changed Parquet files."""
    found: Counter[str] = Counter()
    for number in range(rounds):
        rng = random.Random(f"{seed} {number}")
        with _named(number):
            found[fuzz_tables.try_table(fuzz_parquet.mutate(rng), ".parquet", folder)] += 1
    return found


class _named:
    """Errors say in which round they came about."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None: ...

    def __exit__(self, kind, error, where) -> None:
        if isinstance(error, Exception):
            error.add_note(f"in round {self.number}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="fuzz"))
    print(f"files of a round that goes wrong stay in {scratch}")
    for name, run in (
        ("tables", fuzz_csv_tables),
        ("Parquet", fuzz_parquet_tables),
    ):
        print(name, dict(run(given.rounds, given.seed, scratch)), flush=True)
