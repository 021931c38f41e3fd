"""How much of the joint solver's gain the two-stage online solver keeps.

    python benchmarks/online_quality.py related    # 10 seeds of make_related_tasks
    python benchmarks/online_quality.py mfeat      # six views, ten one-vs-rest tasks, 20 rows a class

Parameters are chosen for each model in the same way: by the score on half of the held-out rows, over the same C and,
for the joint solver, mu. Figures are from the other half. mfeat is read from the folder that KERNELKIN_DATA names.
"""

from __future__ import annotations

import argparse
import itertools
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from experiments.data_sets import load_mfeat
from kernelkin import (
    AverageClassifier,
    AverageRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    TwoStageMKMTRLClassifier,
    TwoStageMKMTRLRegressor,
)
from kernelkin.datasets import make_related_tasks
from kernelkin.kernels import view_kernels


def best_score(estimator, grid, fit, validate, test):
    """The test score of the parameters that validate best."""
    scores = []
    for values in itertools.product(*grid.values()):
        model = fit(clone(estimator).set_params(**dict(zip(grid, values, strict=True))))
        scores.append((validate(model), test(model)))
    return max(scores)[1]


def related(seeds, regression):
    rows = []
    for seed in range(seeds):
        data = make_related_tasks(
            n_kernels=9, n_relevant=1, n_samples=60, noise=0.1, regression=regression, test_size=200, random_state=seed
        )
        half = np.arange(len(data.data_test)) % 2 == 0

        def fit(model, data=data):
            return model.fit(data.data, data.target, tasks=data.tasks)

        def score(part, data=data):
            return lambda model: model.score(data.data_test[part], data.target_test[part], data.tasks_test[part])

        average, joint, two = (
            (AverageRegressor, MKMTRLRegressor, TwoStageMKMTRLRegressor)
            if regression
            else (AverageClassifier, MKMTRLClassifier, TwoStageMKMTRLClassifier)
        )
        kernels, C, mu = data.kernels, [1.0, 10.0, 100.0], [0.01, 0.1, 1.0]
        ends = (fit, score(half), score(~half))
        rows.append(
            [
                best_score(average(kernels), {"C": C}, *ends),
                best_score(joint(kernels, min_rank=3, tol=1e-2), {"C": C, "mu": mu}, *ends),
                *(
                    best_score(two(kernels, update=update, min_rank=3, random_state=seed), {"C": C}, *ends)
                    for update in ("hinge", "perceptron")
                ),
            ]
        )
        print(f"seed {seed}: average {rows[-1][0]:.4f}  joint {rows[-1][1]:.4f}  ", end="")
        print(f"two-stage, hinge {rows[-1][2]:.4f}  perceptron {rows[-1][3]:.4f}", flush=True)
    average, joint, hinge, perceptron = np.mean(rows, axis=0)
    print(f"{'regression, R^2' if regression else 'classification, accuracy'}, mean of {seeds} seeds:")
    print(f"  average kernel {average:.4f}, joint {joint:.4f}, gain {joint - average:.4f}")
    for name, value in (("hinge", hinge), ("perceptron", perceptron)):
        print(f"  two-stage, {name}: {value:.4f}, keeps {(value - average) / (joint - average):.0%} of the gain")


def mfeat(seeds):
    data = load_mfeat()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    Y = np.where(data.target[:, None] == np.arange(10), 1, -1)
    kernels = view_kernels(data.views)
    rows = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(X))
        train = np.concatenate([order[data.target[order] == digit][:20] for digit in range(10)])
        rest = np.setdiff1d(order, train)

        def fit(model, train=train):
            return model.fit(X[train], Y[train])

        def score(part):
            return lambda model: np.mean(model.decision_function(X[part]).argmax(axis=1) == data.target[part])

        ends = (fit, score(rest[::2]), score(rest[1::2]))
        C, mu = [1.0, 10.0, 100.0], [0.1, 1.0]
        two = TwoStageMKMTRLClassifier(kernels, class_weight="balanced", random_state=seed)
        rows.append(
            [
                best_score(AverageClassifier(kernels), {"C": C}, *ends),
                best_score(MKMTRLClassifier(kernels, tol=1e-2), {"C": C, "mu": mu}, *ends),
                *(best_score(two, {"C": C, "update": [update]}, *ends) for update in ("hinge", "perceptron")),
            ]
        )
        print(f"seed {seed}: " + "  ".join(f"{value:.4f}" for value in rows[-1]), flush=True)
    average, joint, hinge, perceptron = 100 * np.mean(rows, axis=0)
    print(f"mfeat, accuracy of ten classes, mean of {seeds} seeds: average kernel {average:.2f}, joint {joint:.2f}, ")
    print(f"  two-stage {hinge:.2f} (hinge), {perceptron:.2f} (perceptron)")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["related", "mfeat"], default="related")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.what == "mfeat":
        mfeat(options.seeds)
    else:
        related(options.seeds, regression=True)
        related(options.seeds, regression=False)


if __name__ == "__main__":
    main()
