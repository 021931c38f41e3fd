"""`task_relations`: is there structure among tasks, and which groups are there?"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..data import TaskData
from ..engines import Engine, read_engine
from .estimate import group_likeness
from .groups import evidence_linkage, task_evidence, tested_groups
from .null import CommonFunctionTest, choose_null, shared_p_value
from .result import TaskRelations
from .rows import mix_features, pool, pooled_kernels


def task_relations(
    model: Any,
    X: Any,
    y: Any,
    tasks: Any = None,
    *,
    n_permutations: int = 199,
    alpha: float = 0.05,
    random_state: Any = None,
    engine: Any = "threads",
) -> TaskRelations:
    """Test whether the tasks of a fitted model differ in their functions, and find the groups that do.

    The test is about the rows: of the model it takes the kernels and the mean of the tasks' mixes of them; of a model
    without kernel weights (Kin, linear models) nothing, and the default kernels on standardised columns are used. One
    function for all tasks, with a level for each, is fitted to these rows; what it leaves of every task is compared
    between tasks, products of a row with itself left out, so that noise and numbers of rows do not look like
    differences. The spread is compared with that of draws without structure: rows dealt to tasks at random, where tasks
    have like inputs, levels and noise; otherwise targets simulated from the common function, the levels, and residuals
    of random signs.

    Groups are the clusters of a tree of the tasks, which are split as long as they do not pass as one function; a
    cluster of q tasks is tested at level ``alpha * q / T``.

    Parameters
    ----------
    model : fitted model of this library
    X, y, tasks : as for `fit`
        Rows with targets; those that the model was fitted to will do.
    n_permutations : int, default 199
        Draws without structure.
    alpha : float, default 0.05
        Level of the tests; intervals have level ``1 - alpha``.
    random_state : int, RandomState or None
        Seed of the draws.
    engine : "threads", a Dask client or an engine
        Where draws are evaluated: in this process, or on the workers of a cluster. The
        result does not depend on it.

    Returns
    -------
    relations : TaskRelations

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor, task_relations
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(240, 2)), np.repeat(["a", "b", "c", "d"], 60)
    >>> y = np.where(np.isin(tasks, ["a", "b"]), X[:, 0], -X[:, 0]) + 0.3 * rng.normal(size=240)
    >>> model = MKMTRLRegressor().fit(X, y, tasks=tasks)
    >>> relations = task_relations(model, X, y, tasks, random_state=0)
    >>> relations.structured, relations.groups.tolist()
    (True, [0, 0, 1, 1])
    """
    check_is_fitted(model)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha!r}")
    if n_permutations < 39:
        raise ValueError(f"n_permutations must be 39 or more, got {n_permutations!r}")
    data = _read(model, X, y, tasks)
    return _find_relations(model, data, n_permutations, alpha, check_random_state(random_state), read_engine(engine))


def _read(model: Any, X: Any, y: Any, tasks: Any) -> TaskData:
    encoder = getattr(model, "encoder_", None)
    data = clone(model).training_data(X, y, tasks, encode=None if encoder is None else encoder.encode)
    if data.n_tasks < 2:
        raise ValueError("relations need two tasks or more")
    if data.labels.tolist() != model.tasks_.tolist():
        raise ValueError("the tasks of these rows are not those of the model")
    return data


def _find_relations(
    model: Any, data: TaskData, n_permutations: int, alpha: float, rng: np.random.RandomState, engine: Engine
) -> TaskRelations:
    kernels, mixes = pooled_kernels(model, data.X)
    rows = pool(data, mix_features(kernels, mixes.mean(axis=0), data), classification=is_classifier(model))
    wide = data.form == "wide"
    null = choose_null(rows, wide=wide)
    test = CommonFunctionTest(rows, null, wide)
    p_value = test.test(n_permutations, rng, engine).p_value
    shared = shared_p_value(test.products.directions(test.fit.residuals), rows.sizes, n_permutations, rng)

    def node_p_value(tasks: np.ndarray) -> float:
        node = CommonFunctionTest(rows.select(tasks), null, wide)
        return node.test(n_permutations, rng, engine).tail_p_value

    linkage = evidence_linkage(task_evidence(rows))
    groups = tested_groups(linkage, node_p_value, p_value, alpha)
    likeness = group_likeness(rows, groups, wide=wide, level=1 - alpha, rng=rng)
    structured = p_value <= alpha
    return TaskRelations(
        tasks=data.labels,
        structured=structured,
        p_value=p_value,
        likeness=likeness.values,
        intervals=likeness.intervals,
        groups=groups,
        shares_more=structured and shared <= alpha,
        shared_p_value=shared,
        linkage=linkage,
        null=null.kind,
        reason=null.reason,
        alpha=alpha,
        n_permutations=n_permutations,
        sizes=rows.sizes,
    )
