"""One table of the estimators' parameters and fitted attributes: their types, what they mean, what values they take.

`describe` writes the sections "Parameters" and "Attributes" of an estimator's docstring from these tables, in the order
of its `__init__`, so that every estimator documents all of its parameters and a text is written once.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

_WIDTH = 110


@dataclass(frozen=True)
class Parameter:
    """A parameter: its type in words, what it means, and its constraint in the terms of scikit-learn's validation."""

    type: str
    text: str
    constraint: Any = "no_validation"


POSITIVE = [Interval(Real, 0, None, closed="neither")]
NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]
UNIT_INTERVAL = [Interval(Real, 0, 1, closed="both")]
COUNT = [Interval(Integral, 1, None, closed="left")]

PARAMETERS: dict[str, Parameter] = {
    "kernels": Parameter(
        'None, "auto", "precomputed", dict, or a kernel, a name, a callable, or a list of these',
        "The base kernels. None: Gaussians of several widths around the median distance, and a linear kernel. "
        '"auto": these, and Gaussians on each column and on groups of columns; a dict from names to columns does '
        "the same with groups of your own. "
        '"precomputed": X holds Gram matrices, of shape (n, n, K) in `fit` and (q, n, K) in `predict`.',
    ),
    "C": Parameter("float", "Cost of errors on training rows.", POSITIVE),
    "mu": Parameter(
        'float or "scale"',
        'Strength of the penalty on the kernel weights. "scale": 1 for a classifier; for a regressor the variance of '
        "the targets within tasks, so that targets in other units lead to the same fit in these units. Together with C "
        "it makes one parameter, ``mu / C**3``: it is enough to tune C.",
        [*POSITIVE, StrOptions({"scale"})],
    ),
    "parsimony": Parameter(
        "float in [0, 1]",
        "How much kernels are charged for their effective dimension, so that narrow ones, which can fit anything, do "
        "not take too much weight: 0 charges all kernels alike, as the paper does; 1 charges in proportion.",
        UNIT_INTERVAL,
    ),
    "sharing": Parameter(
        "float in [0, 1]",
        "How cheap the parts are that tasks share: 1 charges a shared part as one task's own, 0 as much as all tasks "
        "that share it together.",
        UNIT_INTERVAL,
    ),
    "couplings": Parameter(
        'None, "common" or dict',
        'Parts of the functions that tasks share, each with kernel weights of its own: "common", one part for all '
        'tasks; a dict from names to "common", group labels (one for each task, in order, or a dict from task to '
        "label), or T x T positive semi-definite matrices with unit diagonal.",
    ),
    "task_features": Parameter(
        "DataFrame, dict, array or pair, optional",
        "What is known about the tasks: a DataFrame with task labels as index, a dict from task to features, or an "
        "array with a row for each task in order (numbers are standardised, text makes categories); a kernel between "
        "tasks, as a pair (labels, matrix) or a DataFrame whose columns are its index; or a dict from names to several "
        "of these. Each makes parts that tasks share as far as their features are alike: for a table, Gaussian "
        "kernels of two widths. Tasks that have features and no training rows are predicted from their features.",
    ),
    "shared_rank": Parameter(
        'int, "auto" or None',
        "With couplings and the squared loss, for tasks with rows of their own: columns of the factors that "
        'approximate the kernels of the parts that tasks share (the own parts stay exact). "auto": 1,000 where all '
        "tasks together have more than 5,000 rows, or are fitted in blocks, and kernels have no exact factors of low "
        "rank, with a warning; None: shared parts are exact, which takes matrices over the rows of all tasks.",
        [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
    ),
    "min_rows": Parameter(
        "int, optional",
        "Set tasks with fewer rows aside with a warning, and tasks that cannot be fitted (one row or one class, and "
        "nothing shared with other tasks), instead of ending the fit. `unknown_tasks` decides how they are predicted.",
        [*COUNT, None],
    ),
    "prior": Parameter(
        "array of shape (T, T), optional",
        "What is known about the relationship of the tasks, in the order of `tasks_`: a positive definite matrix. "
        "None: the identity.",
        ["array-like", None],
    ),
    "shrinkage": Parameter(
        "float in [0, 1]", "Shrinkage of the relationship towards the prior (1: fixed at the prior).", UNIT_INTERVAL
    ),
    "min_rank": Parameter(
        "float in [1, T]",
        "Lower bound on the effective rank of the relationship (T: independent tasks).",
        [Interval(Real, 1, None, closed="left")],
    ),
    "evenness": Parameter(
        "float in [0, 1)",
        "Interpolates between the paper's penalty (0) and the average kernel (towards 1), which is hard to beat where "
        "all kernels are useful.",
        [Interval(Real, 0, 1, closed="left")],
    ),
    "p": Parameter(
        "float in [1, inf)",
        "Exponent of the norm of the kernel weights: 1 keeps few kernels, large p uses all kernels evenly.",
        [Interval(Real, 1, None, closed="left")],
    ),
    "loss": Parameter(
        '{"hinge", "squared"}',
        "A support vector machine, or a least-squares machine.",
        [StrOptions({"hinge", "squared"})],
    ),
    "class_weight": Parameter(
        'dict, "balanced" or None',
        'Weights of classes. "balanced": every class of a task has the same total weight.',
        [dict, StrOptions({"balanced"}), None],
    ),
    "epsilon": Parameter(
        "float",
        'Half the width of the interval without loss, for ``loss="epsilon_insensitive"``.',
        NOT_NEGATIVE,
    ),
    "fit_intercept": Parameter("bool", "Whether each task has an intercept.", ["boolean"]),
    "normalize": Parameter(
        '{"trace", "cosine", "center"} or None',
        'How kernels are scaled, as fitted on training rows: "trace" to mean diagonal one, "cosine" to unit diagonal, '
        '"center" to mean diagonal one after centring in feature space.',
        [StrOptions({"trace", "cosine", "center"}), None],
    ),
    "unknown_tasks": Parameter(
        '{"error", "common"}',
        "What `predict` does with tasks that were not in training and have no `task_features`: refuse them, or, for "
        'models with the coupling "common", predict them by the common part and the mean of the tasks\' intercepts.',
        [StrOptions({"error", "common"})],
    ),
    "task_column": Parameter(
        "int or str, optional",
        "The column of X that holds the task of each row. Unlike the argument `tasks`, it works inside `GridSearchCV`, "
        "`cross_val_predict` and pipelines.",
    ),
    "solver": Parameter(
        '{"joint", "alternating"} or a solver',
        '"joint" closes the duality gap; "alternating" is the algorithm as published, for comparison.',
        [StrOptions({"joint", "alternating"}), HasMethods("run")],
    ),
    "init": Parameter(
        "array of shape (T, K), optional",
        "Kernel weights to start from (rows for couplings last), such as those that a `callback` kept.",
        ["array-like", None],
    ),
    "tol": Parameter("float", "The relative duality gap to reach.", POSITIVE),
    "max_iter": Parameter("int", "Maximum number of times that all machines are solved.", COUNT),
    "n_jobs": Parameter(
        "int, optional", "Number of threads over tasks. The result does not depend on it.", [Integral, None]
    ),
    "engine": Parameter(
        '"threads", a Dask client or an engine',
        'Where the work is done; the result does not depend on it. "threads": `n_jobs` threads of this process. '
        "A `distributed.Client`: the workers of its cluster hold the rows and Gram matrices of blocks of tasks; for "
        'tasks with rows of their own, without couplings and task_features. See the guide, "Past one machine".',
    ),
    "device": Parameter(
        "str, optional",
        'A device of torch on which tasks are solved, such as "cuda": for wide data, with the squared loss or, '
        "without couplings, the hinge loss. The result is the same within `tol`. None: that of X, where X is a tensor. "
        "Needs the extra `torch`.",
        [str, None],
    ),
    "random_state": Parameter("int, RandomState or None", "Seed of all random draws.", ["random_state"]),
    "verbose": Parameter("int", "1 prints a line for each iteration.", ["verbose"]),
    "callback": Parameter(
        "callable, optional",
        "Called with an `Iterate` (weights, bounds, gap) after each iteration; what it keeps survives an interrupt. "
        "Where it returns True, the fit ends there.",
        [callable, None],
    ),
}

REGRESSION_LOSS = Parameter(
    '{"squared", "epsilon_insensitive"}',
    "Kernel ridge regression, or support vector regression.",
    [StrOptions({"squared", "epsilon_insensitive"})],
)
POOLED_KERNELS = Parameter(
    'None, "precomputed", or a kernel, a name, a callable, or a list of these',
    "The model has one kernel: the average of these, scaled on the rows of all tasks together.",
)

ATTRIBUTES: dict[str, tuple[str, str]] = {
    "tasks_": ("array of shape (T,)", "Task labels, in the order of everything below."),
    "classes_": ("array", "All classes."),
    "task_classes_": ("list of arrays", "The classes of each task."),
    "kernels_": ("sequence of length K", "The fitted kernels; names where Gram matrices are precomputed."),
    "kernel_names_": ("array of shape (K,)", "Names of the kernels."),
    "kernel_weights_": ("array of shape (T, K)", "Kernel weights of the tasks' own parts."),
    "couplings_": ("tuple of Coupling", "The couplings."),
    "coupling_weights_": ("array of shape (n_couplings, K)", "Kernel weights of the couplings' parts."),
    "shared_error_": (
        "array of shape (K,) or None",
        "With couplings: the share of each kernel's trace over all rows that the factors of the shared parts lack; "
        "None where these are exact.",
    ),
    "part_shares_": (
        "array of shape (T, 1 + n_couplings)",
        "With couplings: share of the variance of each task's function on its training rows that its own part and each "
        "coupling's part account for.",
    ),
    "relation_": ("Relation", "The task relationship Omega in factors; nothing of size T x T."),
    "task_relationship_": (
        "array of shape (T, T)",
        "Omega, which ties the kernel weights: a parameter of the model, not a measure of likeness (see "
        "`task_relations`). Computed on access; refused where it does not fit into memory.",
    ),
    "dual_coef_": ("list of arrays of shape (n_t, n_outputs)", "Signed dual variables of each task."),
    "intercept_": ("array of shape (T,)", "Intercepts; a list of arrays where a task has several outputs."),
    "objective_": ("float", "The objective."),
    "duality_gap_": ("float", "Upper bound on the distance of the objective from the optimum."),
    "effective_rank_": ("float", "Exponential of the entropy of the normalised singular values of the weights."),
    "history_": ("dict of arrays", "One entry for each iteration."),
    "n_iter_": ("int", "Number of iterations."),
    "functions_": ("object", "The fitted functions of all tasks."),
    "coef_": ("array of shape (T, d)", "Coefficients."),
    "n_features_in_": ("int", "Number of columns of X in `fit`."),
    "feature_names_in_": ("array of str", "Names of the columns of X, where it had names."),
}

KERNEL_MACHINE = (
    "tasks_",
    "kernels_",
    "kernel_names_",
    "kernel_weights_",
    "relation_",
    "task_relationship_",
    "dual_coef_",
    "intercept_",
    "objective_",
    "duality_gap_",
    "effective_rank_",
    "history_",
    "n_iter_",
    "functions_",
    "n_features_in_",
    "feature_names_in_",
)
CLASSES = ("classes_", "task_classes_")
COUPLED = ("couplings_", "coupling_weights_", "part_shares_", "shared_error_")
LINEAR = ("tasks_", "coef_", "intercept_", "functions_", "n_features_in_", "feature_names_in_")


def set_parameters(estimator: Any, given: dict[str, Any]) -> None:
    """Store the arguments of an `__init__`, its `locals()`, unchanged and under their names, as scikit-learn wants."""
    vars(estimator).update((name, value) for name, value in given.items() if name != "self")


def describe(
    attributes: Sequence[str] = KERNEL_MACHINE,
    own_attributes: dict[str, tuple[str, str]] | None = None,
    **own: Parameter,
) -> Callable[[Any], Any]:
    """Document and constrain the parameters of an estimator class by the tables; `own` replaces or adds entries."""
    texts = {**ATTRIBUTES, **(own_attributes or {})}
    names = (*attributes, *(name for name in own_attributes or {} if name not in attributes))

    def decorate(cls: Any) -> Any:
        defaults = {name: given.default for name, given in inspect.signature(cls).parameters.items()}
        parameters = {name: own.get(name) or PARAMETERS[name] for name in defaults}
        cls._parameter_constraints = {name: parameter.constraint for name, parameter in parameters.items()}
        sections = [
            ("Parameters", [(name, _typed(p.type, defaults[name]), p.text) for name, p in parameters.items()]),
            ("Attributes", [(name, *texts[name]) for name in names]),
        ]
        cls.__doc__ = _insert(inspect.cleandoc(cls.__doc__ or ""), "\n".join(_section(*each) for each in sections))
        return cls

    return decorate


def _typed(words: str, default: Any) -> str:
    """Add the default to the type of a parameter."""
    known = default is not inspect.Parameter.empty and default is not None
    return f"{words}, default {default!r}".replace("'", '"') if known else words


def _section(title: str, entries: Sequence[tuple[str, str, str]]) -> str:
    lines = [title, "-" * len(title)]
    for name, kind, text in entries:
        lines.append(f"{name} : {kind}")
        lines.append(_indented(text))
    return "\n".join([*lines, ""])


@functools.cache
def _indented(text: str) -> str:
    """Wrap a text; estimators share most of them, and wrapping takes a good part of their import."""
    return textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _insert(doc: str, sections: str) -> str:
    """Put sections before the first section of a docstring."""
    lines = doc.split("\n")
    first = next((i - 1 for i, line in enumerate(lines) if line and set(line) == {"-"}), len(lines))
    return "\n".join([*"\n".join(lines[:first]).rstrip().split("\n"), "", sections, *lines[first:]])
