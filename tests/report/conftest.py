from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kernelkin import MKMTRLRegressor, TaskRelations
from kernelkin.app.report.content import MOST_PAIRS
from kernelkin.io import SavedModel
from kernelkin.tables.schema import TableSchema


def saved_model(n_tasks, n_rows=12, **parameters):
    """A model of so many schools with test scores that are known."""
    rng = np.random.default_rng(0)
    names = [f"school {t + 1}" for t in range(n_tasks)]
    frame = pd.DataFrame({"school": np.repeat(names, n_rows), "age": rng.normal(size=n_tasks * n_rows)})
    frame["sex"] = rng.choice(["boy", "girl"], len(frame))
    frame["mark"] = 50 + 10 * np.sin(2 * frame.age) + rng.normal(size=len(frame))
    schema = TableSchema.fit(frame, "school", "mark", regression=True)
    model = MKMTRLRegressor(tol=1e-2, min_rank=2.0, **parameters)
    model.fit(schema.encode(frame), schema.targets(frame), tasks=schema.tasks(frame))
    place = {name: t for t, name in enumerate(names)}
    order = [place[name] for name in model.tasks_]
    evaluation = {
        "score": "R²",
        "tasks": model.tasks_.tolist(),
        # The score of a school grows with its number, that of the baselines falls.
        "scores": {
            "MK-MTRL": [0.5 + t / 1000 for t in order],
            "AVG": [0.5 - t / 1000 for t in order],
            "STL": [0.4 if t else float("nan") for t in order],
        },
        "test_rows": 3 * n_tasks,
        "train_rows": 9 * n_tasks,
        "tuned": False,
    }
    about = {
        "evaluation": evaluation,
        "task_rows": [[name, n_rows] for name in names],
        "command": "kernelkin fit schools.csv",
        "data": "schools.csv",
    }
    return SavedModel(model, schema, "0.1.0", about)


@pytest.fixture(scope="package")
def few():
    return saved_model(3, couplings="common")


@pytest.fixture(scope="package")
def many():
    return saved_model(139, n_rows=6, couplings="common")


@pytest.fixture(scope="package")
def crowd():
    """More tasks than pairs of them can be drawn."""
    return saved_model(MOST_PAIRS + 1, n_rows=4)


def tested_relations(groups, tasks):
    """Relations of these groups that passed; their likeness falls with the distance of their labels."""
    groups = np.asarray(groups)
    likeness = 1.0 - 0.7 * np.abs(groups[:, np.newaxis] - groups)
    steps = np.arange(len(groups) - 1)
    # A chain: each task joins those before it.
    first = np.where(steps == 0, 0, len(groups) + steps - 1)
    return TaskRelations(
        tasks=np.asarray(tasks),
        by="functions",
        structured=True,
        p_value=0.005,
        likeness=likeness,
        intervals=np.stack([likeness - 0.1, likeness], axis=2),
        groups=groups,
        shares_more=True,
        shared_p_value=0.01,
        linkage=np.column_stack([first, steps + 1, steps, steps + 2]).astype(float),
        null="permutation",
        reason="the tasks have like inputs, levels and noise",
        alpha=0.05,
        n_permutations=199,
        sizes=np.full(len(groups), 12),
    )


@pytest.fixture(scope="package")
def related(few):
    """Three schools, of which the first and the third cannot be told apart."""
    found = tested_relations([0, 1, 0], few.model.tasks_)
    return replace(few, about={**few.about, "relations": found.to_dict()})


@pytest.fixture(scope="package")
def crowd_relations(crowd):
    T = len(crowd.model.tasks_)
    return tested_relations(np.arange(T) % 2, crowd.model.tasks_)
