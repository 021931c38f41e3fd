"""Small mixed problems: rows, terms and parts that the tests of this folder share."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from kernelkin.kin.losses import LOSSES
from kernelkin.mixed.covariance import Layout
from kernelkin.mixed.likelihoods import Bernoulli, Gaussian
from kernelkin.mixed.model import MixedModel, Part, flatten
from kernelkin.mixed.terms import Additive, Constant, Curves, Given, Level, Linear, Smooth, TaskKernel

# Those that have a mode to find: of two classes, and of all losses but the squared one.
LAPLACE = {"bernoulli": Bernoulli()} | {name: LOSSES[name].likelihood() for name in LOSSES if name != "squared"}
LIKELIHOODS = {"gaussian": Gaussian(), **LAPLACE}
# Rows of each group: blocks of five sizes.
SIZES = (1, 2, 4, 5, 7, 9)
N_SECOND = 4


def make_rows(seed=0, d=2, sizes=SIZES):
    """Rows with two groupings, targets of each likelihood, weights, offsets and a kernel that a user might give."""
    rng = np.random.default_rng(seed)
    N = sum(sizes)
    X = rng.normal(size=(N, d))
    F = rng.normal(size=(N, 5))
    return SimpleNamespace(
        X=X,
        groups=(rng.permutation(np.repeat(np.arange(len(sizes)), sizes)), rng.integers(0, N_SECOND, N)),
        targets={
            "gaussian": rng.normal(size=N),
            "bernoulli": (rng.random(N) < 0.5).astype(float),
            # Counts are valid targets of all losses so far; one that needs others gets a line of its own.
            **dict.fromkeys(LOSSES, rng.poisson(2.0, N).astype(float)),
        },
        weight=rng.uniform(0.5, 3.0, N),
        offset=rng.normal(size=N),
        kernel=F @ F.T / 5,
        of=np.arange(d) % 2,
        rng=rng,
    )


def task_values(G, seed=3):
    """A kernel (G, G) of unit diagonal between groups."""
    U = np.random.default_rng(seed).normal(size=(G, 2))
    return np.exp(-0.5 * ((U[:, None] - U) ** 2).sum(-1))


def terms_of(rows, landmarks=None, knots=None, smooth_tasks=True):
    """Every kind of term by what it is; with landmarks and knots those that common terms are features of."""
    of, G, X = rows.of, int(rows.groups[0].max()) + 1, rows.X
    Z = X if landmarks is None else landmarks
    knots = tuple(X[:, j] for j in range(X.shape[1])) if knots is None else knots
    return {
        "mean": Constant(),
        "level": Level(),
        "level of another grouping": Level(1, N_SECOND, name="second"),
        "linear": Linear(of),
        "slopes": Linear(of, 0, name="slopes"),
        "slopes of another grouping": Linear(of, 1, N_SECOND, name="slopes 2"),
        "curves of another grouping": Curves(
            of, 1, N_SECOND, "curves 2", columns=np.arange(X.shape[1]), low=X.min(0), high=X.max(0)
        ),
        "common and own smooth": Smooth(of, landmarks=Z),
        "common smooth": Smooth(of, own=False, landmarks=Z, name="common only"),
        "own smooth": Smooth(of, common=False, name="own only"),
        "additive": Additive(of, knots),
        "own additive": Additive(of, grouping=0, name="own additive"),
        "given kernel": Given(0),
        "given kernel, common": Given(0, own=False, name="given common"),
        "task features": TaskKernel(task_values(G), of, smooth_tasks),
        "task features, levels": TaskKernel(task_values(G, 4), of, False, name="task levels"),
    }


# Terms that blocks with features have: kernels of the user are exact, and those of tasks have levels alone.
BY_FEATURES = (
    "level",
    "level of another grouping",
    "linear",
    "slopes",
    "slopes of another grouping",
    "curves of another grouping",
    "common and own smooth",
    "common smooth",
    "own smooth",
    "additive",
    "own additive",
    "task features, levels",
)


def layout_of(rows, dense):
    return Layout.dense(rows.X, rows.groups, (rows.kernel,)) if dense else Layout.blocks(rows.X, rows.groups)


def make_model(rows, terms, likelihood="gaussian", dense=True, weights=True, rho=0.2):
    """A model with its part, and parameters away from where they start."""
    model = MixedModel(terms, rho, LIKELIHOODS[likelihood])
    weight = rows.weight if weights else np.ones(len(rows.X))
    offset = rows.offset if likelihood in LOSSES and LOSSES[likelihood].takes_offset else 0.0
    model.parts = [Part(layout_of(rows, dense), rows.targets[likelihood][:, None], weight, 1.0, offset)]
    x = flatten(model.start)
    return model.set_parameters(x + 0.3 * np.random.default_rng(7).normal(size=len(x)))


def finite_differences(function, x, step=1e-5):
    """Central differences of a scalar function at x (p,)."""
    return np.array([(function(x + step * e) - function(x - step * e)) / (2 * step) for e in np.eye(len(x))])
