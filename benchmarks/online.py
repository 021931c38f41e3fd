"""Time and memory of the two-stage online solver at scale.

    python benchmarks/online.py literal     # T=102, K=38, 1,500 rows, against Algorithm 2 in plain NumPy
    python benchmarks/online.py tasks       # T=10,000 tasks of 50 rows, K=20, against T=1,000

All figures of one command are measured in the same run. The literal transcription is timed on fewer rounds
(--literal-rounds) and scaled up: its rounds cost the same all along.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from kernelkin import TwoStageMKMTRLClassifier, gaussian_kernels
from kernelkin.engines import Workers
from kernelkin.kernels.kernel import fit_kernels
from kernelkin.paper.grams.row_kernels import RowKernels
from kernelkin.paper.solvers.online import Online, OnlineRun, PairSource


def resident():
    """Bytes of memory in use, and the most so far."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[1]) * resource.getpagesize()
    return now, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def literal_rounds(kernels, X, Y, rng, n_rounds, mu):
    """Algorithm 2 as printed, on one pair of rows after the other; wide labels Y (n, T)."""
    n, T = Y.shape
    B, Omega = np.zeros((len(kernels), T)), np.eye(T) / T
    mistakes = 0
    for _ in range(n_rounds):
        t, i, j = rng.integers(T), rng.integers(n), rng.integers(n)
        z = np.array([kernel(X[i : i + 1], X[j : j + 1])[0, 0] for kernel in kernels])
        label = 1.0 if Y[i, t] == Y[j, t] else -1.0
        if label != np.sign(B[:, t] @ z):
            B += label / mu * np.outer(z, Omega[t])
            values, vectors = np.linalg.eigh(B.T @ B)
            root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
            Omega = root / np.trace(root)
            mistakes += 1
    return mistakes


def learn(X, y, tasks, kernels, n_rounds, update="perceptron"):
    """Stage 1 alone: seconds to prepare, seconds of the rounds, and the run."""
    model = TwoStageMKMTRLClassifier()
    began = time.perf_counter()
    data = model.training_data(X, y, tasks)
    values = RowKernels.of(data.X, fit_kernels(kernels, data.X), "trace")
    source = PairSource(data, values, [np.ones(len(rows)) for rows in data.rows], "trace", classes=True)
    ready = time.perf_counter()
    run = OnlineRun(Online(update=update), values.n_kernels, data.n_tasks, n_rounds, center=True)
    for rounds in source.draw(np.random.default_rng(0), n_rounds):
        run.step(rounds)
    return ready - began, time.perf_counter() - ready, run


def compare_literal(n_rounds, few):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 20))
    Y = np.where(X @ rng.normal(size=(20, 102)) > 0, 1, -1)
    kernels = gaussian_kernels(np.geomspace(0.1, 10, 38))
    fitted = fit_kernels(kernels, X)
    learn(X[:50], Y[:50], None, kernels, 100)  # compiles
    prepare, seconds, run = learn(X, Y, None, kernels, n_rounds)
    began = time.perf_counter()
    mistakes = literal_rounds(fitted, X, Y, rng, few, 1.0)
    slow = (time.perf_counter() - began) * n_rounds / few
    print(f"T=102, K=38, 1,500 rows, {n_rounds:,} rounds")
    print(
        f"  ours: {prepare:.2f} s to prepare, {seconds:.2f} s of rounds, {run.state.mistakes / n_rounds:.1%} mistakes"
    )
    print(f"  literal: {slow:.1f} s (from {few:,} rounds, {mistakes / few:.1%} mistakes)")
    print(f"  {slow / (prepare + seconds):.0f} times as fast, preparation counted")


def compare_tasks(n_rounds):
    kernels = gaussian_kernels(np.geomspace(0.1, 10, 20))
    rng = np.random.default_rng(0)
    rounds = {}
    for T in (1000, 10_000):
        X = rng.normal(size=(50 * T, 10))
        tasks = np.repeat(np.arange(T), 50)
        y = np.where(X[:, 0] * (1 + tasks % 2) + X[:, 1] * (tasks % 3) > 0, 1, -1)
        learn(X[:100], y[:100], tasks[:100], kernels, 100)  # compiles
        before, _ = resident()
        prepare, rounds[T], run = learn(X, y, tasks, kernels, n_rounds)
        print(
            f"T={T:,}, K=20, {n_rounds:,} rounds: {prepare:.2f} s to prepare, "
            f"{1e6 * rounds[T] / n_rounds:.1f} us a round, "
            f"{run.state.mistakes / n_rounds:.1%} mistakes, peak {(resident()[1] - before) / 1e6:.0f} MB above the data"
        )
    print(f"  a round of T=10,000 takes {rounds[10_000] / rounds[1000]:.2f} times as long as one of T=1,000")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["literal", "tasks"], default="literal")
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--literal-rounds", type=int, default=1000)
    options = parser.parse_args(arguments)
    if options.what == "literal":
        with Workers(1):  # one thread of BLAS for both
            compare_literal(options.rounds, options.literal_rounds)
    else:
        with Workers(1):
            compare_tasks(options.rounds)


if __name__ == "__main__":
    main()
