"""Documentation and constraints of the parameters and fitted attributes of all estimators.

`describe` writes the `__init__` of an estimator and the sections "Parameters" and "Attributes" of its docstring from
these tables. So every estimator documents all parameters, and each text is written once.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

_WIDTH = 110


class Parameter(NamedTuple):
    """A parameter: its type in words, its description, its constraint for scikit-learn's validation, its default."""

    type: str
    text: str
    constraint: Any = "no_validation"
    default: Any = None


POSITIVE = [Interval(Real, 0, None, closed="neither")]
NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]
UNIT_INTERVAL = [Interval(Real, 0, 1, closed="both")]
COUNT = [Interval(Integral, 1, None, closed="left")]

PARAMETERS: dict[str, Parameter] = {
    "kernels": Parameter(
        'None, "auto", "precomputed", dict, or a kernel, a name, a callable, or a list of these',
        "The base kernels. None: Gaussian kernels of several widths around the median distance, and a linear kernel. "
        '"auto": these, and a Gaussian kernel on each column. A dict from '
        "names to columns: the default kernels, and kernels on each of these groups of columns. "
        '"precomputed": X contains Gram matrices, of shape (n, n, K) in `fit` and (q, n, K) in `predict`.',
    ),
    "C": Parameter("float", "Cost of errors on training rows.", POSITIVE, 1.0),
    "mu": Parameter(
        'float or "scale"',
        'Strength of the penalty on the kernel weights. "scale": 1 for a classifier; for a regressor the variance of '
        "the targets within tasks, so that the fit does not depend on the units of the targets. Only ``mu / C**3`` "
        "matters, so it is enough to tune C.",
        [*POSITIVE, StrOptions({"scale"})],
        "scale",
    ),
    "parsimony": Parameter(
        "float in [0, 1]",
        "How strongly kernels are penalised for their effective dimension, so that narrow kernels, which can fit "
        "anything, do not get too much weight. 0: all kernels are penalised equally, as in the paper; 1: in proportion "
        "to their effective dimension.",
        UNIT_INTERVAL,
        0.0,
    ),
    "sharing": Parameter(
        "float in [0, 1]",
        "Penalty on the parts that tasks share. 1: a shared part is penalised like the own part of one task; 0: like "
        "the own parts of all tasks that share it.",
        UNIT_INTERVAL,
        1.0,
    ),
    "couplings": Parameter(
        'None, "common" or dict',
        'Parts of the functions that tasks share, each with its own kernel weights. "common": one part for all tasks. '
        'A dict from names to "common", to group labels (one label per task, in order, or a dict or Series by task), '
        "or to T x T positive semi-definite matrices with unit diagonal: arrays, or data frames named by the tasks.",
    ),
    "task_features": Parameter(
        "DataFrame or pair, optional",
        "Features of the tasks: a DataFrame with task labels as index (numbers are standardised, text is treated as "
        "categories). Or a kernel between tasks: a pair (labels, matrix), or a DataFrame whose columns equal its "
        "index. Tasks with similar features then have similar functions; for a table of features, by each of two "
        "Gaussian kernels. Tasks that have features but no training rows are predicted from the features.",
    ),
    "prior": Parameter(
        "array or DataFrame of shape (T, T), optional",
        "Prior task relationship: a positive definite matrix, as an array in the order of `tasks_`, or as a data frame "
        "whose rows and columns are named by the tasks. None: the identity.",
        ["array-like", None],
    ),
    "shrinkage": Parameter(
        "float in [0, 1]",
        "Shrinkage of the relationship towards the prior (1: fixed at the prior).",
        UNIT_INTERVAL,
        0.1,
    ),
    "min_rank": Parameter(
        "float in [1, T]",
        "Lower bound on the effective rank of the relationship (T: independent tasks).",
        [Interval(Real, 1, None, closed="left")],
        1.0,
    ),
    "evenness": Parameter(
        "float in [0, 1)",
        "Interpolates between the paper's penalty (0) and the average kernel (towards 1), which is hard to beat if all "
        "kernels are useful.",
        [Interval(Real, 0, 1, closed="left")],
        0.0,
    ),
    "p": Parameter(
        "float in [1, inf)",
        "Exponent of the norm of the kernel weights: 1 selects few kernels, a large p uses all kernels evenly.",
        [Interval(Real, 1, None, closed="left")],
        2.0,
    ),
    "loss": Parameter(
        '{"hinge", "squared"}',
        'Loss function. "hinge": support vector machine; "squared": least-squares classifier.',
        [StrOptions({"hinge", "squared"})],
        "hinge",
    ),
    "class_weight": Parameter(
        'dict, "balanced" or None',
        'Weights of classes. "balanced": every class of a task has the same total weight.',
        [dict, StrOptions({"balanced"}), None],
    ),
    "epsilon": Parameter(
        "float",
        'Half width of the interval without loss. Only used with ``loss="epsilon_insensitive"``.',
        NOT_NEGATIVE,
        0.1,
    ),
    "fit_intercept": Parameter("bool", "Whether each task has an intercept.", ["boolean"], True),
    "normalize": Parameter(
        '{"trace", "cosine", "center"} or None',
        'Scaling of kernels, fitted on the training rows: "trace" to mean diagonal one, "cosine" to unit diagonal, '
        '"center" to mean diagonal one after centring in feature space. None: no scaling.',
        [StrOptions({"trace", "cosine", "center"}), None],
        "trace",
    ),
    "unknown_tasks": Parameter(
        '{"error", "common"}',
        "How `predict` treats tasks that were not in training. "
        '"error": raise an error; "common", for models with the coupling "common": predict with the common part and '
        "the mean intercept of the tasks, without intervals.",
        [StrOptions({"error", "common"})],
        "error",
    ),
    "task_column": Parameter(
        "int or str, optional",
        "The column of X with the task of each row. Unlike the argument `tasks`, it works in `GridSearchCV`, "
        "`cross_val_predict` and pipelines.",
    ),
    "solver": Parameter(
        '{"joint", "alternating"} or a solver',
        '"joint" closes the duality gap to `tol`; "alternating" is the published algorithm, for comparison.',
        [StrOptions({"joint", "alternating"}), HasMethods("run")],
        "joint",
    ),
    "init": Parameter(
        "array of shape (T, K), optional",
        "Initial kernel weights (rows for couplings last), for example weights saved by a `callback`.",
        ["array-like", None],
    ),
    "tol": Parameter("float", "Tolerance on the relative duality gap.", POSITIVE, 1e-3),
    "max_iter": Parameter("int", "Maximum number of iterations, which solve all machines once each.", COUNT, 100),
    "n_jobs": Parameter("int, optional", "Number of threads. The result does not depend on it.", [Integral, None]),
    "device": Parameter(
        "str, optional",
        'A torch device for the computations, such as "cuda". Only for wide data with the squared loss or, without '
        "couplings, the hinge loss. The result is the same within `tol`. None: the device of X if X is a tensor, else "
        "the CPU. Needs the extra `torch`.",
        [str, None],
    ),
    "random_state": Parameter("int, RandomState or None", "Seed of all random draws.", ["random_state"]),
    "verbose": Parameter("int", "1 prints a line for each iteration.", ["verbose"], 0),
    "callback": Parameter(
        "callable, optional",
        "Called with an `Iterate` (weights, bounds, gap) after each iteration. If it returns True, the fit stops. It "
        "can save intermediate results in case the fit is interrupted.",
        [callable, None],
    ),
}

REGRESSION_LOSS = Parameter(
    '{"squared", "epsilon_insensitive"}',
    'Loss function. "squared": kernel ridge regression; "epsilon_insensitive": support vector regression.',
    [StrOptions({"squared", "epsilon_insensitive"})],
    "squared",
)
POOLED_KERNELS = Parameter(
    'None, "precomputed", or a kernel, a name, a callable, or a list of these',
    "The model uses the average of these kernels, scaled on the rows of all tasks together.",
)

ATTRIBUTES: dict[str, tuple[str, str]] = {
    "tasks_": ("array of shape (T,)", "Task labels, in the order used by all other attributes."),
    "classes_": ("array", "All classes."),
    "task_classes_": ("list of arrays", "The classes of each task."),
    "kernels_": ("sequence of length K", "The fitted kernels, or names if Gram matrices are precomputed."),
    "kernel_names_": ("array of shape (K,)", "Names of the kernels."),
    "kernel_weights_": ("array of shape (T, K)", "Kernel weights of the tasks' own parts."),
    "couplings_": ("tuple of Coupling", "The couplings."),
    "coupling_weights_": ("array of shape (n_couplings, K)", "Kernel weights of the couplings' parts."),
    "part_shares_": (
        "array of shape (T, 1 + n_couplings)",
        "With couplings: the share of the variance of each task's function, on its training rows, that is explained by "
        "its own part and by the part of each coupling.",
    ),
    "relation_": ("Relation", "The task relationship Omega, stored as low-rank factors instead of a T x T matrix."),
    "task_relationship_": (
        "array of shape (T, T)",
        "Omega, the relationship between the kernel weights of tasks. It is a parameter of the model, not a measure of "
        "similarity (for that, see `task_relations`). Computed on access; raises if it does not fit into memory.",
    ),
    "dual_coef_": ("list of arrays of shape (n_t, n_outputs)", "Signed dual variables of each task."),
    "intercept_": ("array of shape (T,)", "Intercepts; a list of arrays if a task has several outputs."),
    "objective_": ("float", "Value of the objective function."),
    "duality_gap_": ("float", "Upper bound on the distance of the objective from the optimum."),
    "effective_rank_": ("float", "Effective rank of the weights: exp of the entropy of normalised singular values."),
    "history_": ("dict of arrays", "Progress of the solver, with one entry per iteration."),
    "n_iter_": ("int", "Number of iterations."),
    "functions_": ("object", "The fitted functions of all tasks."),
    "coef_": ("array of shape (T, d)", "Coefficients."),
    "n_features_in_": ("int", "Number of columns of X in `fit`."),
    "feature_names_in_": ("array of str", "Names of the columns of X, if X has names."),
}

# Names of attributes by kind of model.
CLASSES = ("classes_", "task_classes_")
COUPLED = ("couplings_", "coupling_weights_", "part_shares_")
KERNEL_MACHINE = tuple(name for name in ATTRIBUTES if name not in (*CLASSES, *COUPLED, "coef_"))
LINEAR = ("tasks_", "coef_", "intercept_", "functions_", "n_features_in_", "feature_names_in_")


def describe(
    attributes: Sequence[str] = KERNEL_MACHINE,
    own_attributes: dict[str, tuple[str, str]] | None = None,
    parameters: str = "",
    **own: Parameter,
) -> Callable[[Any], Any]:
    """Write the `__init__`, parameter constraints and docstring sections of an estimator class from the tables.

    `parameters` are the names of its parameters; those after "*" can only be passed by name. "targets" stands for the
    parameters of the loss of a classifier or a regressor. `own` and `own_attributes` replace or add entries of tables.
    """

    def decorate(cls: Any) -> Any:
        is_classifier = issubclass(cls, ClassifierMixin)
        known = {**PARAMETERS, **({} if is_classifier else {"loss": REGRESSION_LOSS}), **own}
        targets = "loss class_weight" if is_classifier else "loss epsilon fit_intercept"
        first, _, by_name = parameters.replace("targets", targets).partition("*")
        cls.__init__ = _make_init(first.split(), by_name.split(), known)
        names = [*first.split(), *by_name.split()]
        cls._parameter_constraints = {name: known[name].constraint for name in names}
        fitted = dict.fromkeys([*attributes, *(CLASSES if is_classifier else ()), *(own_attributes or {})])
        texts = {**ATTRIBUTES, **(own_attributes or {})}
        sections = _section("Parameters", [(name, _typed(known[name]), known[name].text) for name in names])
        sections += "\n" + _section("Attributes", [(name, *texts[name]) for name in fitted])
        cls.__doc__ = _insert(inspect.cleandoc(cls.__doc__ or ""), sections)
        return cls

    return decorate


def _make_init(first: Sequence[str], by_name: Sequence[str], known: dict[str, Parameter]) -> Callable[..., None]:
    """Return an `__init__` that stores its arguments as attributes, as scikit-learn requires."""
    kinds: dict[str, Any] = dict.fromkeys(first, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    kinds |= dict.fromkeys(by_name, inspect.Parameter.KEYWORD_ONLY)
    given = [inspect.Parameter(name, kind, default=known[name].default) for name, kind in kinds.items()]
    signature = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *given])

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        bound.apply_defaults()
        vars(self).update((name, value) for name, value in bound.arguments.items() if name != "self")

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def _typed(parameter: Parameter) -> str:
    """Return the type of a parameter with its default."""
    if parameter.default is inspect.Parameter.empty or parameter.default is None:
        return parameter.type
    return f"{parameter.type}, default {parameter.default!r}".replace("'", '"')


def _section(title: str, entries: Sequence[tuple[str, str, str]]) -> str:
    lines = [f"{name} : {kind}\n{_indented(text)}" for name, kind, text in entries]
    return "\n".join([title, "-" * len(title), *lines, ""])


# Cached, because wrapping would take a large part of the import time.
_wrap = functools.partial(textwrap.fill, width=_WIDTH, initial_indent="    ", subsequent_indent="    ")
_indented = functools.cache(_wrap)


def _insert(doc: str, sections: str) -> str:
    """Insert sections before the first section of a docstring."""
    lines = doc.split("\n")
    first = next((i - 1 for i, line in enumerate(lines) if line and set(line) == {"-"}), len(lines))
    return "\n".join([*"\n".join(lines[:first]).rstrip().split("\n"), "", sections, *lines[first:]])
