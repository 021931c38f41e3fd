"""Counts: Poisson deviance of held-out rows, Kin beside the Poisson mixed models of GPBoost, on made and real data.

python -m benchmarks counts -- --seeds 10
RDATASETS=DIR python -m benchmarks counts -- --more --seeds 3 --first 0

The real data are the seizures of 59 patients in four periods (Thall and Vail 1990), from the files of statsmodels. With
`--more`, they are five sets of Rdatasets, from a copy in a folder that has, for example, lme4/grouseticks.csv.
Rows are added to `benchmarks/results/counts.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import mean_poisson_deviance

from kernelkin import KinRegressor

RESULTS = Path(__file__).parent / "results" / "counts.jsonl"
PROBLEMS = ("levels and slopes, exposure", "levels and a smooth", "slopes of groups", "seizures")
# File, group, target, columns of numbers, columns of texts, and the largest number of groups.
MORE = {
    "ticks on chicks": ("lme4/grouseticks", "BROOD", "TICKS", ["HEIGHT"], ["YEAR"], 200),
    "fruits of plants": ("lme4/Arabidopsis", "gen", "total.fruits", ["nutrient"], ["amd", "status", "rack"], 200),
    "visits to doctors": (
        *("COUNT/rwm5yr", "id", "docvis"),
        *(["age", "hhninc", "educ", "outwork", "female", "married"], [], 120),
    ),
    "days in hospital": ("COUNT/medpar", "provnum", "los", ["hmo", "white", "age80"], ["type"], 200),
    "days after surgery": ("COUNT/azpro", "hospital", "los", ["procedure", "sex", "admit", "age75"], [], 200),
}


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


def real(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Half of the rows of each group, at most eight of them, are known."""
    import pandas as pd

    file, group, target, numbers, texts, most = MORE[name]
    table = pd.read_csv(Path(os.environ["RDATASETS"], f"{file}.csv")).dropna(subset=[group, target, *numbers, *texts])
    kept = np.random.default_rng(0).permutation(table[group].unique())[:most]
    table = table[table[group].isin(kept) & (table.groupby(group)[target].transform("size") > 1)]
    X = pd.get_dummies(table[numbers + texts].astype(dict.fromkeys(texts, str)), drop_first=True).to_numpy(dtype=float)
    place = table.assign(random=np.random.default_rng(seed).random(len(table))).groupby(group)["random"].rank()
    is_test = place > np.clip(table.groupby(group)[target].transform("size") // 2, 1, 8)
    X, tasks = (X - X.mean(0)) / X.std(0), np.unique(table[group].astype(str), return_inverse=True)[1]
    return X, table[target].to_numpy(), tasks, np.zeros(len(X)), is_test.to_numpy()


def kin(X, y, tasks, offset, test) -> np.ndarray:
    model = KinRegressor(loss="poisson", random_state=0, n_jobs=1)
    model.fit(X[~test], y[~test], tasks=tasks[~test], offset=offset[~test])
    return model.predict(X[test], tasks=tasks[test], offset=offset[test])


def gpboost(X, y, tasks, offset, test, slopes: bool) -> tuple[float, np.ndarray]:
    """AIC and predictions of GPBoost's generalised linear mixed model with random intercepts and, if asked, slopes."""
    from gpboost import GPModel

    design = np.column_stack([np.ones(len(X)), X])
    random = {"group_rand_coef_data": X[~test], "ind_effect_group_rand_coef": [1] * X.shape[1]} if slopes else {}
    model = GPModel(group_data=tasks[~test], likelihood="poisson", **random)
    model.fit(y[~test].astype(float), design[~test], offset=offset[~test])
    asked = {"group_rand_coef_data_pred": X[test]} if slopes else {}
    given = {"group_data_pred": tasks[test], "X_pred": design[test], "offset_pred": offset[test], **asked}
    n_variances = 1 + slopes * X.shape[1]
    aic = 2.0 * (model.get_current_neg_log_likelihood() + n_variances)
    return aic, model.predict(**given, predict_response=True)["mu"]


CONTENDERS = {
    "Kin": kin,
    "GPBoost, random intercepts": lambda *given: gpboost(*given, slopes=False)[1],
    "GPBoost, random slopes": lambda *given: gpboost(*given, slopes=True)[1],
    # Both have the same fixed effects.
    "GPBoost, lower AIC": lambda *given: min(
        (gpboost(*given, slopes=s) for s in (False, True)), key=lambda pair: pair[0]
    )[1],
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks counts --", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=10, help="the first seed; 0 to 5 were seen before")
    parser.add_argument("--more", action="store_true", help="five real sets from the folder RDATASETS")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    print("| data | " + " | ".join(CONTENDERS) + " |\n|" + " --- |" * (1 + len(CONTENDERS)))
    for kind, problem in enumerate(MORE if options.more else PROBLEMS):
        found: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        for seed in range(options.first, options.first + options.seeds):
            data = real(problem, seed) if options.more else made(kind, seed) if kind < 3 else seizures(seed)
            for name, contender in CONTENDERS.items():
                began = time.perf_counter()
                deviance = float(mean_poisson_deviance(data[1][data[4]], np.maximum(contender(*data), 1e-9)))
                found[name].append(deviance)
                row = {"problem": problem, "seed": seed, "model": name, "deviance": round(deviance, 5)}
                with RESULTS.open("a") as file:
                    file.write(json.dumps(row | {"seconds": round(time.perf_counter() - began, 2)}) + "\n")
        print(f"| {problem} | " + " | ".join(f"{np.mean(values):.4f}" for values in found.values()) + " |", flush=True)
