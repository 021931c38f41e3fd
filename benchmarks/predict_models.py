"""The contenders: Kin, the models of the paper, and what people would run instead, each tuned on folds of the case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any, Self

import numpy as np

import kernelkin

from .predict_case import Case, Parts, tune
from .predict_peers import MAX_GP_LABELS, MAX_SLOPES, GPBoost, LightGBM, MixedModel, himalaya_ridge, multi_task_gp

KIN = "Kin"
# A Gaussian process with a length scale for each column takes too long on more.
MAX_GP_COLUMNS, MAX_GP_ROWS = 100, 200
# Models of the paper, with C tuned.
OURS = {"AVG": "Average", "IMKL": "IMKL", "MTFL": "MTFL", "MTRL": "MTRL", "MK-MTFL": "MKMTFL", "MK-MTRL": "MKMTRL"}
STANDARDISED, GROUPED, LATER = ("standardised",), ("grouped",), ("later",)


@dataclass(frozen=True)
class Contender:
    """A way to predict.

    Attributes
    ----------
    name : as in tables.
    run : (case, seed) -> values of the test rows of each task: targets in standard units, or above 0 for class 1.
    cost : seconds of processor time for 1,000 labels, roughly; the longest jobs start first.
    suites : where it takes part.
    needs : a module that must be installed.
    instead_of : a module that must not be installed: this contender stands in for it.
    fits : whether it can be used on a case.
    """

    name: str
    run: Callable[[Case, int], Parts]
    cost: float
    suites: tuple[str, ...] = STANDARDISED
    needs: str | None = None
    instead_of: str | None = None
    fits: Callable[[Case], bool] = lambda case: True

    def reason_not_to_run(self) -> str | None:
        """Return why this contender is left out on this machine, if it is."""
        if self.needs is not None and find_spec(self.needs) is None:
            return f"{self.needs} is not installed"
        if self.instead_of is not None and find_spec(self.instead_of) is not None:
            return f"{self.instead_of} is installed"
        return None


def contenders() -> dict[str, Contender]:
    """All contenders by name, those that cannot run here too."""
    everywhere = STANDARDISED + GROUPED + LATER
    found = [
        Contender(KIN, kin, 60, everywhere),
        *(Contender(name, partial(tuned, name), cost) for name, cost in
          (("AVG", 3), ("IMKL", 8), ("MTFL", 60), ("MTRL", 60), ("MK-MTFL", 12), ("MK-MTRL", 12))),
        Contender("mixed model", partial(mixed_model, True), 10, GROUPED + LATER, needs="gpboost"),
        Contender("mixed model, slopes", partial(mixed_model, False), 2, GROUPED + LATER, needs="gpboost"),
        Contender("GPBoost", gpboost, 10, GROUPED, needs="gpboost"),
        Contender("ridge, pooled", ridge_pooled, 1, fits=lambda case: not case.is_wide),
        Contender("ridge, group indicators", ridge_indicators, 5, GROUPED),
        Contender("ridge, a task", ridge_each, 1, STANDARDISED + GROUPED),
        Contender("SVM, a task", svm_each, 2),
        Contender("GP with ARD, a task", gp_each, 30, fits=lambda case: case.X[0].shape[1] <= MAX_GP_COLUMNS),
        Contender("random forest, a task", partial(forest, False), 40),
        Contender("random forest, pooled", partial(forest, True), 40),
        Contender("LightGBM, a task", partial(boosted, LightGBM, False), 20, needs="lightgbm"),
        Contender("LightGBM, pooled", partial(boosted, LightGBM, True), 10, everywhere, needs="lightgbm"),
        Contender("HistGradientBoosting, a task", partial(boosted, _boosting, False), 40, instead_of="lightgbm"),
        Contender("HistGradientBoosting, pooled", partial(boosted, _boosting, True), 30, everywhere,
                  instead_of="lightgbm"),
        Contender("MultiTaskElasticNet", elastic_net, 1, fits=lambda case: case.is_wide and not case.classification),
        Contender("himalaya", himalaya_ridge, 2, needs="himalaya", fits=lambda case: case.is_wide),
        Contender("multi-task GP", multi_task_gp, 80, needs="gpytorch",
                  fits=lambda case: sum(map(len, case.y)) <= MAX_GP_LABELS),
        Contender("last value", last_value, 1, LATER),
    ]  # fmt: skip
    return {each.name: each for each in found}


def kin(case: Case, seed: int) -> Parts:
    """KinRegressor or KinClassifier as a user calls them."""
    kind = kernelkin.KinClassifier if case.classification else kernelkin.KinRegressor
    problem = case.problem
    model = kind(random_state=seed).fit(problem.X, problem.y, tasks=problem.tasks)
    if case.suite == "standardised":
        return _values(model, case)
    if case.classification:
        # Rows of all groups are ranked together, and probabilities are what can be compared between groups.
        return case.by_task(model.predict_proba(problem.X_test, tasks=problem.tasks_test)[:, 1] - 0.5)
    found = case.by_task(model.predict(problem.X_test, tasks=problem.tasks_test))
    return [(v - m) / s for v, m, s in zip(found, case.location, case.spread, strict=True)]


def tuned(name: str, case: Case, seed: int) -> Parts:
    """A model of the paper on the default kernels, C by the criterion that other contenders go by."""
    from kernelkin.paper.model_selection import MultiTaskCV

    kind = getattr(kernelkin, OURS[name] + ("Classifier" if case.classification else "Regressor"))
    model = kind(class_weight="balanced") if case.classification else kind()
    scoring = "roc_auc" if case.classification else "neg_mean_squared_error"
    search = MultiTaskCV(model, {"C": np.logspace(-2, 3, 11).tolist()}, cv=case.cv(), scoring=scoring)
    return _values(search.fit(case.problem.X, case.problem.y, tasks=case.problem.tasks), case)


def _values(model: Any, case: Case) -> Parts:
    predict = model.decision_function if case.classification else model.predict
    return case.by_task(predict(case.problem.X_test, tasks=case.problem.tasks_test))


def last_value(case: Case, seed: int) -> Parts:
    """What each group had last: training rows are in the order of time."""
    return [np.full(len(X), y[-1]) for X, y in zip(case.X_test, case.y, strict=True)]


def each_task(make: Callable[[Any], Any], candidate: Any, X: Parts, y: Parts, X_test: Parts) -> Parts:
    """One model per task; `make(candidate)` returns it, for classes a classifier."""
    found = []
    for a, b, c in zip(X, y, X_test, strict=True):
        if np.issubdtype(b.dtype, np.integer) and len(np.unique(b)) == 1:
            # All rows of a group have one class: its log odds, with a row of each class more.
            found.append(np.full(len(c), np.log((b.sum() + 1) / (len(b) - b.sum() + 1))))
        else:
            found.append(outputs(make(candidate).fit(a, b), c) if len(c) else np.zeros(0))
    return found


def outputs(model: Any, X: np.ndarray) -> np.ndarray:
    """Predicted targets; of a classifier, decision values or the probability of class 1 less a half."""
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)[:, 1] - 0.5
    return model.predict(X)


@dataclass(frozen=True)
class Pooled:
    """One model of the rows of all tasks.

    `design` makes its columns from X and the task of each row. A candidate is a pair of parameters, and whether
    targets are in standard units task by task or all together: the first leaves the mean of each task to its rows.
    """

    case: Case
    make: Callable[[Any], Any]
    design: Callable[[np.ndarray, np.ndarray, int], np.ndarray]

    def __call__(self, candidate: Any, X: Parts, y: Parts, X_test: Parts) -> Parts:
        params, units = candidate
        location, spread = self._units(y) if units == "all" else (np.zeros(len(y)), np.ones(len(y)))
        targets = [b * s + m for b, m, s in zip(y, location, spread, strict=True)] if units == "all" else y
        model = self.make(params).fit(self._columns(X), np.concatenate(targets))
        sizes = np.cumsum([len(part) for part in X_test])[:-1]
        found = np.split(outputs(model, self._columns(X_test)), sizes)
        return [(v - m) / s for v, m, s in zip(found, location, spread, strict=True)]

    def _columns(self, X: Parts) -> np.ndarray:
        return self.design(np.vstack(X), np.repeat(np.arange(len(X)), [len(part) for part in X]), len(X))

    def _units(self, y: Parts) -> tuple[np.ndarray, np.ndarray]:
        """From standard units of each task to those of all tasks together."""
        raw = np.concatenate([b * s + m for b, m, s in zip(y, self.case.location, self.case.spread, strict=True)])
        return (self.case.location - raw.mean()) / raw.std(), self.case.spread / raw.std()


def with_units(case: Case, params: list) -> list[tuple[Any, str]]:
    """Candidates of pooled models. Where targets are standardised once, these are the units of all tasks already."""
    once = case.classification or case.suite != "standardised"
    return list(product(params, ("task",) if once else ("task", "all")))


def dummies(X: np.ndarray, tasks: np.ndarray, n_tasks: int) -> np.ndarray:
    """X with a column of 0 and 1 for each task."""
    return np.hstack([X, tasks[:, np.newaxis] == np.arange(n_tasks)])


def codes(X: np.ndarray, tasks: np.ndarray, n_tasks: int) -> np.ndarray:
    """The number of the task as first column."""
    return np.column_stack([tasks, X])


def ridge_each(case: Case, seed: int) -> Parts:
    return tune(case, list(np.logspace(-3, 4, 15)), partial(each_task, partial(_ridge, case)))


def ridge_pooled(case: Case, seed: int) -> Parts:
    predict = Pooled(case, partial(_ridge, case), dummies)
    return tune(case, with_units(case, list(np.logspace(-3, 4, 15))), predict)


def ridge_indicators(case: Case, seed: int) -> Parts:
    """Columns, and indicators of groups on a scale of their own, which is how much groups are pooled."""
    alphas = np.logspace(-3, 4, 8 if case.classification else 15)
    grid = list(product(alphas, (0.1, 0.3, 1.0, 3.0, 10.0)))
    return tune(case, with_units(case, grid), Pooled(case, partial(IndicatorRidge, case), codes))


class IndicatorRidge:
    """Ridge or logistic regression on columns and indicators of the group, which is the first column."""

    def __init__(self, case: Case, params: tuple[float, float]) -> None:
        alpha, self.scale = params
        self.model, self.n_tasks = _ridge(case, alpha), case.n_tasks

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.model.fit(self._columns(X), y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return outputs(self.model, self._columns(X))

    def _columns(self, X: np.ndarray) -> np.ndarray:
        return np.hstack([X[:, 1:], self.scale * (X[:, :1] == np.arange(self.n_tasks))])


def mixed_model(choose: bool, case: Case, seed: int) -> Parts:
    """Random intercepts, and random slopes where columns are few; with `choose` folds say whether slopes are used."""
    slopes = [True] if case.X[0].shape[1] <= MAX_SLOPES else []
    grid = [*([False] if choose or not slopes else []), *slopes]
    return tune(case, with_units(case, grid), Pooled(case, partial(MixedModel, case.classification), codes))


def gpboost(case: Case, seed: int) -> Parts:
    """Boosting is tuned; variances of random effects are those of greatest likelihood."""
    grid = list(product((10, 30, 100, 300), (4, 15), (0.03, 0.1)))
    return tune(case, with_units(case, grid), Pooled(case, partial(GPBoost, case.classification, seed), codes))


def _ridge(case: Case, alpha: float) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge

    if not case.classification:
        return Ridge(alpha)
    # Where rows of all groups are ranked together, weights of classes would hide the levels of groups.
    weight = "balanced" if case.suite == "standardised" else None
    return LogisticRegression(C=1 / alpha, max_iter=1000, class_weight=weight)


def svm_each(case: Case, seed: int) -> Parts:
    d = case.X[0].shape[1]
    grid = list(product((1.0, 10.0, 0.1, 100.0), (0.3 / d, 1 / d, 0.1 / d, 0.03 / d)))
    return tune(case, grid, partial(each_task, partial(_svm, case.classification)))


def _svm(classification: bool, params: tuple[float, float]) -> Any:
    from sklearn.svm import SVC, SVR

    C, gamma = params
    return SVC(C=C, gamma=gamma, class_weight="balanced") if classification else SVR(C=C, gamma=gamma)


def gp_each(case: Case, seed: int) -> Parts:
    """Tuned by the evidence instead of folds."""
    rng = np.random.default_rng(seed)
    rows = [_some(y, rng) for y in case.y]
    X, y = ([part[r] for part, r in zip(parts, rows, strict=True)] for parts in (case.X, case.y))
    return each_task(partial(_gp, case.classification), case.X[0].shape[1], X, y, case.X_test)


def _some(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.sort(rng.permutation(len(y))[:MAX_GP_ROWS])


def _gp(classification: bool, d: int) -> Any:
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.full(d, np.sqrt(d)), (1e-2, 1e3))
    if classification:
        return GaussianProcessClassifier(kernel, optimizer=_lbfgs)
    return GaussianProcessRegressor(kernel + WhiteKernel(0.1, (1e-5, 10)), optimizer=_lbfgs)


def _lbfgs(objective: Callable, theta: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, float]:
    """At most 60 iterations: later ones change little."""
    from scipy.optimize import minimize

    found = minimize(objective, theta, method="L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": 60})
    return found.x, found.fun


def forest(pooled: bool, case: Case, seed: int) -> Parts:
    """30 trees where candidates are compared, 300 in the end."""
    grid = list(product((1, 5), ("sqrt", 1 / 3) if case.classification else (1 / 3, 1.0)))
    few, many = (partial(_forest, case.classification, seed, trees) for trees in (30, 300))
    if pooled:
        return tune(case, with_units(case, grid), Pooled(case, few, dummies), Pooled(case, many, dummies))
    return tune(case, grid, partial(each_task, few), partial(each_task, many))


def _forest(classification: bool, seed: int, trees: int, params: tuple[int, Any]) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestClassifier if classification else RandomForestRegressor
    return kind(trees, min_samples_leaf=params[0], max_features=params[1], random_state=seed)


def boosted(kind: Callable[..., Any], pooled: bool, case: Case, seed: int) -> Parts:
    """Gradient boosting: tuned as the grid says."""
    grid = _boosting_grid(case)
    make = partial(kind, case.classification, seed, pooled)
    if pooled:
        return tune(case, with_units(case, grid), Pooled(case, make, codes))
    return tune(case, grid, partial(each_task, make))


def _boosting_grid(case: Case) -> list[tuple[int, int, float, float]]:
    """Rounds, leaves, rate, and how much LightGBM smooths categories; more values where groups have a few rows each."""
    if case.suite == "standardised":
        return list(product((60, 200), (4, 15), (0.1,), (1.0,)))
    return list(product((30, 100, 300), (4, 15), (0.03, 0.1), (1.0, 10.0)))


def _boosting(classification: bool, seed: int, pooled: bool, params: tuple[int, int, float, float]) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if classification else HistGradientBoostingRegressor
    return kind(
        max_iter=params[0],
        max_leaf_nodes=params[1],
        learning_rate=params[2],
        min_samples_leaf=5,
        early_stopping=False,
        categorical_features=[0] if pooled else None,
        random_state=seed,
    )


def elastic_net(case: Case, seed: int) -> Parts:
    """On rows that all tasks share."""
    grid = list(product(np.logspace(-3, 0.5, 8), (0.5, 1.0, 0.1)))
    return tune(case, grid, _elastic_net)


def _elastic_net(params: tuple[float, float], X: Parts, y: Parts, X_test: Parts) -> Parts:
    from sklearn.linear_model import MultiTaskElasticNet

    model = MultiTaskElasticNet(alpha=params[0], l1_ratio=params[1], max_iter=5000)
    return list(model.fit(X[0], np.column_stack(y)).predict(X_test[0]).T)
