from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kernelkin import AverageClassifier, AverageRegressor, KinRegressor, MKMTRLRegressor
from kernelkin.relations import Comparison, Gain, SharingReport, TaskRelations
from kernelkin.relations.baselines import BOOSTING, SEPARATE
from kernelkin.report.evaluation import evaluation_content, rows_of_table
from kernelkin.storage import SavedModel
from kernelkin.tables.schema import TableSchema

# A task whose name would run a script, were it ever taken as HTML.
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">"


def make_table(n_tasks, n_rows, seed=0, first="school 1"):
    """Marks of pupils of so many schools: a number, a text, a truth value and a date."""
    rng = np.random.default_rng(seed)
    n = n_tasks * n_rows
    frame = pd.DataFrame({"school": np.repeat([first, *(f"school {t + 1}" for t in range(1, n_tasks))], n_rows)})
    frame["age (years)"] = 12 + 2 * rng.normal(size=n)
    frame["sex"] = rng.choice(["boy", "girl"], n)
    frame["public"] = rng.random(n) < 0.5
    frame["tested on"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 600, n), unit="D")
    frame["mark"] = 50 + 10 * np.sin(frame["age (years)"]) + 4 * frame["public"] + rng.normal(size=n)
    frame["passed"] = np.where(frame["mark"] + 4 * rng.normal(size=n) > 50, "yes", "no")
    return frame


def fit_table(estimator, frame, target, name="school"):
    """The estimator on a table, as `kernelkin fit` fits it, with an evaluation on another table of the same schools."""
    regression = target == "mark"
    schema = TableSchema.fit(
        frame.drop(columns="passed" if regression else "mark"), name, target, regression=regression
    )
    model = estimator.fit(schema.encode_table(frame), schema.targets(frame), tasks=schema.tasks(frame))
    saved = SavedModel(model, schema, "0.1.0", {"command": "kernelkin fit schools.csv", "data": "schools.csv"})
    labels = frame[name].unique().tolist()
    fresh = make_table(len(labels), 6, seed=1, first=labels[0])
    found = rows_of_table(saved, fresh, "rows that this fit had not seen")
    rows = [[task, int((frame[name] == task).sum())] for task in labels]
    stored = {
        "evaluations": [evaluation_content(*part) for part in found.items()],
        "sharing": made_comparison(model.tasks_),
        "task_rows": rows,
    }
    return replace(saved, about={**saved.about, **stored})


def made_comparison(tasks):
    """A model that is ahead of one of two others, and level with the second."""
    T = len(tasks)
    r2 = {"MK-MTRL": 0.8, SEPARATE: 0.5, BOOSTING: 0.79}
    scores = {name: {"RMSE": 1.0, "R²": value, "R² within groups": value - 0.1} for name, value in r2.items()}
    ends = {SEPARATE: (0.3, 0.2, 0.4), BOOSTING: (0.01, -0.05, 0.06)}
    gains = {name: Gain(*parts) for name, parts in ends.items()}
    found = Comparison("5 folds inside groups", np.full(T, 6), scores, gains)
    makers = {"MK-MTRL": "kernelkin.MKMTRLRegressor", SEPARATE: "SeparateModels", BOOSTING: "GradientBoosting"}
    return SharingReport("MK-MTRL", makers, np.asarray(tasks), {"new rows of known groups": found})


@pytest.fixture(scope="package")
def few():
    """Three schools, one of a hostile name, with a part that they share."""
    model = MKMTRLRegressor(couplings="common", tol=1e-2)
    return fit_table(model, make_table(3, 14, first=HOSTILE), "mark")


@pytest.fixture(scope="package")
def nineteen():
    """Nineteen schools and two classes."""
    return fit_table(AverageClassifier(), make_table(19, 12), "passed")


@pytest.fixture(scope="package")
def many():
    """400 schools."""
    return fit_table(AverageRegressor(), make_table(400, 4), "mark")


@pytest.fixture(scope="package")
def searched():
    """What `kernelkin fit` does by default: an average of mixed models."""
    return fit_table(KinRegressor(cv=2, random_state=0), make_table(3, 14), "mark")


@pytest.fixture(scope="package")
def forty():
    """Forty schools, more than a picture of their levels shows."""
    return fit_table(KinRegressor(cv=2, random_state=0), make_table(40, 3).drop(columns=["tested on", "sex"]), "mark")


@pytest.fixture(scope="package")
def related(few):
    """Three schools, of which the first and the third cannot be told apart."""
    found = made_relations([0, 1, 0], few.model.tasks_)
    return replace(few, about={**few.about, "relations": found})


def made_relations(groups, tasks):
    """Relations of these groups that passed; their likeness falls with the distance of their labels."""
    groups = np.asarray(groups)
    names = np.unique(groups)
    likeness = 1.0 - 0.7 * np.abs(names[:, np.newaxis] - names)
    steps = np.arange(len(groups) - 1)
    # A chain: each task joins those before it.
    first = np.where(steps == 0, 0, len(groups) + steps - 1)
    return TaskRelations(
        tasks=np.asarray(tasks),
        structured=True,
        p_value=0.005,
        pairs=np.stack([likeness, likeness - 0.1, likeness], axis=2),
        groups=groups,
        linkage=np.column_stack([first, steps + 1, steps, steps + 2]).astype(float),
        null="permutation",
        reason="the groups have similar inputs, levels and noise",
        alpha=0.05,
        n_permutations=199,
        left_out=np.array([]),
    )
