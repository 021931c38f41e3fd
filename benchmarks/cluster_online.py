"""Kernel weights learned online in blocks of tasks, against one stream: held-out R^2 of the two-stage model.

python -m benchmarks cluster_online

Blocks are played one after the other in this process: what they learn does not depend on where they are.
"""

from __future__ import annotations

import joblib
import numpy as np

from kernelkin import AverageRegressor, TwoStageMKMTRLRegressor
from kernelkin.engines import Joblib

from .cluster import COLUMNS, KERNELS, make_rows

N_TASKS, N_ROWS, SEEDS = 90, 40, range(3)
BLOCKS, ROUNDS = (2, 8, 30), (2_000, 20_000, 200_000)


class Blocks(Joblib):
    """An engine that plays `n_jobs` blocks, whatever joblib's backend is."""

    @property
    def n_workers(self) -> int:
        return self.n_jobs or 1


def score(model, seed: int) -> float:
    """Fit on rows of this seed, and score on as many others."""
    train, test = (make_rows(1000 * seed + part, N_TASKS, range(N_ROWS)) for part in (0, 1))
    model.fit(train[COLUMNS], train["y"], tasks=train["task"])
    return float(model.score(test[COLUMNS], test["y"], tasks=test["task"]))


def main() -> None:
    """Print a table."""
    print(f"| rounds | one stream | {' | '.join(f'{b} blocks' for b in BLOCKS)} |")
    print("|" + "---|" * (2 + len(BLOCKS)))
    with joblib.parallel_config("sequential"):
        for rounds in ROUNDS:
            cells = []
            for engine in ("threads", *map(Blocks, BLOCKS)):
                found = [
                    score(TwoStageMKMTRLRegressor(KERNELS, n_rounds=rounds, random_state=seed, engine=engine), seed)
                    for seed in SEEDS
                ]
                cells.append(f"{np.mean(found):.4f}")
            print(f"| {rounds:,} | {' | '.join(cells)} |", flush=True)
        print(f"Average of the kernels: {np.mean([score(AverageRegressor(KERNELS), seed) for seed in SEEDS]):.4f}")


if __name__ == "__main__":
    main()
