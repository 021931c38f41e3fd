"""Counts: Poisson deviance of held-out rows, Kin beside the Poisson mixed models of GPBoost, on made and real data.

python -m benchmarks counts -- --seeds 10

The real data are the seizures of 59 patients in four periods (Thall and Vail 1990), from the files of statsmodels.
Rows are added to `benchmarks/results/counts.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import mean_poisson_deviance

from kernelkin import KinRegressor

RESULTS = Path(__file__).parent / "results" / "counts.jsonl"
PROBLEMS = ("levels and slopes, exposure", "levels and a smooth", "slopes of groups", "seizures")


def made(kind: int, seed: int) -> tuple[np.ndarray, ...]:
    """40 groups of 3 to 8 training rows and 10 test rows: X, counts, groups, offsets, and which rows are for tests."""
    rng = np.random.default_rng([seed, kind])
    T = 40
    sizes = rng.integers(3, 9, T)
    tasks = np.concatenate([np.repeat(np.arange(T), sizes), np.repeat(np.arange(T), 10)])
    is_test = np.arange(len(tasks)) >= sizes.sum()
    X, level, slope = rng.normal(size=(len(tasks), 2)), 0.7 * rng.normal(size=T), rng.normal(size=T)
    offset = np.log(rng.uniform(0.5, 10.0, len(tasks))) if kind == 0 else np.zeros(len(tasks))
    f = (
        0.3 * X[:, 0] - 0.2 * X[:, 1],
        np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1],
        0.3 * X[:, 0] + 0.4 * slope[tasks] * X[:, 0],
    )[kind]
    return X, rng.poisson(np.exp(0.7 + level[tasks] + f + offset)), tasks, offset, is_test


def seizures(seed: int) -> tuple[np.ndarray, ...]:
    """Counts of seizures in two weeks, of which one of four periods of each patient is held out."""
    import pandas as pd
    import statsmodels

    table = pd.read_csv(Path(statsmodels.__file__).parent / "genmod" / "tests" / "results" / "epil.csv")
    X = np.column_stack([table["trt"] == "progabide", np.log(table["base"]), np.log(table["age"]), table["period"]])
    held = np.random.default_rng(seed).integers(1, 5, table["subject"].max() + 1)
    is_test = (table["period"] == held[table["subject"]]).to_numpy()
    return X.astype(float), table["y"].to_numpy(), table["subject"].to_numpy(), np.zeros(len(X)), is_test


def kin(X, y, tasks, offset, test) -> np.ndarray:
    model = KinRegressor(loss="poisson", random_state=0, n_jobs=1)
    model.fit(X[~test], y[~test], tasks=tasks[~test], offset=offset[~test])
    return model.predict(X[test], tasks=tasks[test], offset=offset[test])


def gpboost(X, y, tasks, offset, test, slopes: bool) -> np.ndarray:
    """The generalised linear mixed model of GPBoost, with random intercepts and, if asked, random slopes."""
    from gpboost import GPModel

    design = np.column_stack([np.ones(len(X)), X])
    random = {"group_rand_coef_data": X[~test], "ind_effect_group_rand_coef": [1] * X.shape[1]} if slopes else {}
    model = GPModel(group_data=tasks[~test], likelihood="poisson", **random)
    model.fit(y[~test].astype(float), design[~test], offset=offset[~test])
    asked = {"group_rand_coef_data_pred": X[test]} if slopes else {}
    given = {"group_data_pred": tasks[test], "X_pred": design[test], "offset_pred": offset[test], **asked}
    return model.predict(**given, predict_response=True)["mu"]


CONTENDERS = {
    "Kin": kin,
    "GPBoost, random intercepts": lambda *given: gpboost(*given, slopes=False),
    "GPBoost, random slopes": lambda *given: gpboost(*given, slopes=True),
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks counts --", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=10, help="the first seed; 0 to 5 were seen before")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    print("| data | " + " | ".join(CONTENDERS) + " |\n|" + " --- |" * (1 + len(CONTENDERS)))
    for kind, problem in enumerate(PROBLEMS):
        found: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        for seed in range(options.first, options.first + options.seeds):
            data = made(kind, seed) if kind < 3 else seizures(seed)
            for name, contender in CONTENDERS.items():
                began = time.perf_counter()
                deviance = float(mean_poisson_deviance(data[1][data[4]], np.maximum(contender(*data), 1e-9)))
                found[name].append(deviance)
                row = {"problem": problem, "seed": seed, "model": name, "deviance": round(deviance, 5)}
                with RESULTS.open("a") as file:
                    file.write(json.dumps(row | {"seconds": round(time.perf_counter() - began, 2)}) + "\n")
        print(f"| {problem} | " + " | ".join(f"{np.mean(values):.4f}" for values in found.values()) + " |", flush=True)
