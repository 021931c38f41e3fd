"""Contenders whose libraries are in the extra "bench"; libraries are imported when they are used."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .predict_case import Case, Parts

# Widths of Gaussians relative to the median distance, as our default kernels have them.
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
MAX_GP_LABELS, GP_STEPS, GP_RANK = 2000, 100, 2
# Slopes of more columns than that, each with a variance of its own, are not estimated from a few rows a group.
MAX_SLOPES = 10


class LightGBM:
    """Gradient boosting by lightgbm; the first column may be a category."""

    def __init__(self, classification: bool, seed: int, category: bool, params: tuple[int, int, float, float]) -> None:
        self.rounds, leaves, rate, smooth = params
        self.category = category
        self.params = {
            "objective": "binary" if classification else "regression",
            "num_leaves": leaves,
            "learning_rate": rate,
            "min_data_in_leaf": 5,
            # Made for categories with hundreds of rows: tasks have fewer.
            "min_data_per_group": 5,
            "cat_smooth": smooth,
            "num_threads": 1,
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        import lightgbm

        data = lightgbm.Dataset(X, y, categorical_feature=[0] if self.category else [], free_raw_data=False)
        self.booster = lightgbm.train(self.params, data, self.rounds)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Targets, or log odds of class 1."""
        return np.asarray(self.booster.predict(X, raw_score=True))


class MixedModel:
    """A linear mixed model by GPBoost's GPModel; the first column is the group.

    Fixed effects of all columns, random intercepts of groups, and with `slopes` also a random slope of each column,
    their variances by maximum likelihood. Classes have a logistic likelihood (Laplace's method).
    """

    def __init__(self, classification: bool, slopes: bool) -> None:
        self.classification, self.slopes = classification, slopes

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        import gpboost
        from scipy.linalg import qr

        columns = self._columns(X)
        # Columns that others determine (one of all indicators of a text) have no fixed effect that can be told.
        _, R, order = qr(columns, mode="economic", pivoting=True)
        size = np.abs(np.diag(R))
        self.used = np.sort(order[: int((size > 1e-8 * size[0]).sum())])
        self.model = gpboost.GPModel(
            group_data=X[:, 0].astype(int),
            likelihood="bernoulli_logit" if self.classification else "gaussian",
            **self._slopes(X, ""),
            **({"ind_effect_group_rand_coef": [1] * (X.shape[1] - 1)} if self.slopes else {}),
        )
        self.model.fit(y=y.astype(float), X=columns[:, self.used], params={"trace": False})
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Targets, or log odds of class 1."""
        found = self.model.predict(
            group_data_pred=X[:, 0].astype(int),
            X_pred=self._columns(X)[:, self.used],
            predict_response=not self.classification,
            **self._slopes(X, "_pred"),
        )
        return np.asarray(found["mu"])

    def _columns(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(X)), X[:, 1:]])

    def _slopes(self, X: np.ndarray, suffix: str) -> dict[str, np.ndarray]:
        return {f"group_rand_coef_data{suffix}": X[:, 1:]} if self.slopes else {}


class GPBoost:
    """Boosted trees and random intercepts of groups, by gpboost; the first column is the group."""

    def __init__(self, classification: bool, seed: int, params: tuple[int, int, float]) -> None:
        self.classification = classification
        self.rounds, leaves, rate = params
        self.params = {
            "objective": "binary" if classification else "regression",
            "num_leaves": leaves,
            "learning_rate": rate,
            "min_data_in_leaf": 5,
            "num_threads": 1,
            "seed": seed,
            "verbose": -1,
        }

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        import gpboost

        likelihood = "bernoulli_logit" if self.classification else "gaussian"
        groups = gpboost.GPModel(group_data=X[:, 0].astype(int), likelihood=likelihood)
        data = gpboost.Dataset(X[:, 1:], y.astype(float))
        self.booster = gpboost.train(self.params, data, gp_model=groups, num_boost_round=self.rounds)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Targets, or log odds of class 1."""
        found = self.booster.predict(X[:, 1:], group_data_pred=X[:, 0].astype(int), pred_latent=True)
        return found["fixed_effect"] + found["random_effect_mean"]


def himalaya_ridge(case: Case, seed: int) -> Parts:
    """Multiple kernel ridge by random search; classes are regressed on."""
    from himalaya.kernel_ridge import MultipleKernelRidgeCV
    from sklearn.model_selection import PredefinedSplit

    Y = np.column_stack(case.y).astype(np.float64)
    mean = Y.mean(axis=0)
    train, test = _kernel_stacks(case.X[0], case.X_test[0])
    model = MultipleKernelRidgeCV(
        kernels="precomputed",
        solver="random_search",
        solver_params={"n_iter": 60, "alphas": np.logspace(-4, 4, 17), "progress_bar": False},
        cv=PredefinedSplit(case.folds),
        random_state=seed,
    )
    found = model.fit(train, Y - mean).predict(test) + mean
    return list((found - 0.5 if case.classification else found).T)


def _kernel_stacks(X: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gaussians and a linear kernel of mean diagonal one: (K, n, n) and (K, q, n)."""
    from scipy.spatial.distance import cdist, pdist

    median = np.median(pdist(X))
    pairs = [(cdist(rows, X), rows @ X.T) for rows in (X, X_test)]
    scale = np.trace(pairs[0][1]) / len(X)
    train, test = (
        np.stack([*(np.exp(-0.5 * (far / (width * median)) ** 2) for width in WIDTHS), product / scale])
        for far, product in pairs
    )
    return train, test


def multi_task_gp(case: Case, seed: int) -> Parts:
    """A Gaussian process with ARD over columns and an index kernel over tasks; classes are regressed on."""
    import gpytorch
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    code = np.repeat(np.arange(case.n_tasks), [len(part) for part in case.y])
    y = torch.tensor(np.concatenate(case.y) - (0.5 if case.classification else 0.0), dtype=torch.float64)
    inputs = (torch.tensor(np.vstack(case.X), dtype=torch.float64), torch.tensor(code[:, np.newaxis]))
    scale = y.std()
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = _gp_model(inputs, y / scale, likelihood, case.n_tasks).double()
    with gpytorch.settings.max_cholesky_size(10 * MAX_GP_LABELS):
        _maximise_evidence(model, likelihood.double(), inputs, y / scale)
        return [_gp_mean(model, X, t, float(scale)) for t, X in enumerate(case.X_test)]


def _gp_model(inputs: Any, y: Any, likelihood: Any, n_tasks: int) -> Any:
    import gpytorch
    import torch

    d = inputs[0].shape[1]

    class Model(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(inputs, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.columns = gpytorch.kernels.RBFKernel(ard_num_dims=d)
            self.columns.lengthscale = d**0.5
            self.tasks = gpytorch.kernels.IndexKernel(num_tasks=n_tasks, rank=min(GP_RANK, n_tasks))
            # From tasks that are alike: a random start often ends where they have nothing in common.
            self.tasks.covar_factor.data.mul_(0.1)[:, 0] += 0.7
            self.tasks.var = torch.full((n_tasks,), 0.3)

        def forward(self, X: Any, code: Any) -> Any:
            covariance = self.columns(X).mul(self.tasks(code))
            return gpytorch.distributions.MultivariateNormal(self.mean_module(X), covariance)

    return Model()


def _maximise_evidence(model: Any, likelihood: Any, inputs: Any, y: Any) -> None:
    import gpytorch
    import torch

    model.train()
    likelihood.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for _ in range(GP_STEPS):
        optimizer.zero_grad()
        loss = -evidence(model(*inputs), y)
        loss.backward()
        optimizer.step()
    model.eval()
    likelihood.eval()


def _gp_mean(model: Any, X: np.ndarray, task: int, scale: float) -> np.ndarray:
    """Values for the test rows of one task, a few hundred at a time."""
    import torch

    if not len(X):
        return np.zeros(0)
    found = []
    with torch.no_grad():
        for rows in np.array_split(X, -(-len(X) // 500)):
            code = torch.full((len(rows), 1), task)
            found.append(model(torch.tensor(rows, dtype=torch.float64), code).mean.numpy())
    return scale * np.concatenate(found)
