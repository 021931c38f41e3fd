"""The real data sets; the tests that read files need KERNELKIN_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from experiments import data_files
from experiments.data_files import fetch
from experiments.data_sets import load_landmine, load_mfeat, load_sarcos, load_school, load_stock

HOME = os.environ.get("KERNELKIN_DATA")


def needs(*files):
    """Skip where a file is missing, so that no test goes to the network."""
    missing = [file.path for file in files if not (HOME and (Path(HOME) / file.path).is_file())]
    return pytest.mark.skipif(bool(missing), reason=f"KERNELKIN_DATA={HOME} does not have {missing}")


LOADERS = [
    pytest.param(load_stock, marks=needs(data_files.STOCK)),
    pytest.param(load_landmine, marks=needs(data_files.LANDMINE)),
    pytest.param(load_sarcos, marks=needs(data_files.SARCOS)),
    pytest.param(load_school, marks=needs(data_files.SCHOOL)),
    pytest.param(load_mfeat, marks=needs(*data_files.MFEAT.values())),
]


@pytest.mark.parametrize("load", LOADERS)
def test_every_loader_returns_the_documented_fields(load):
    bunch = load()
    assert bunch.data.dtype == np.float64 and bunch.data.flags.c_contiguous
    assert np.isfinite(bunch.data).all() and np.isfinite(bunch.target).all()
    assert len(bunch.target) == len(bunch.data)
    assert len(set(bunch.feature_names)) == bunch.data.shape[1]
    assert "References" in bunch.DESCR
    if "tasks" in bunch:
        assert bunch.tasks.shape == bunch.target.shape
        assert np.array_equal(np.unique(bunch.tasks), bunch.task_names)


@needs(*data_files.FILES)
def test_every_file_has_its_checksum():
    for file in data_files.FILES:
        assert fetch(file) == Path(HOME) / file.path


def test_every_file_is_named_once():
    assert len({file.path for file in data_files.FILES}) == len(data_files.FILES) == 20
    assert len({file.sha256 for file in data_files.FILES}) == 20
    assert all(file.source.rsplit("/", 1)[1] == file.path.rsplit("/", 1)[-1] for file in data_files.FILES)


@needs(data_files.STOCK)
def test_stock_predicts_the_next_week():
    stock = load_stock()
    for X, y in [(stock.data, stock.target), (stock.data_test, stock.target_test)]:
        assert X.shape == y.shape == (25, 9)
        assert np.array_equal(X[1:], y[:-1])
    assert len(stock.target_names) == 9
    assert not np.shares_memory(stock.data, stock.data_test)


@needs(data_files.LANDMINE)
@pytest.mark.parametrize(
    ("tasks", "fields"), [("usual", [*range(1, 11), *range(16, 25)]), ("literal", range(1, 20)), ("all", range(1, 30))]
)
def test_landmine_tasks(tasks, fields):
    mines = load_landmine(tasks)
    assert mines.task_names.tolist() == [f"field{field:02d}" for field in fields]
    assert mines.groups.tolist() == ["foliated" if field <= 15 else "desert" for field in fields]
    assert mines.data.shape[1] == 9
    assert set(np.unique(mines.target)) == {0, 1}
    assert np.mean(mines.target) == pytest.approx(0.06, abs=0.006)


@needs(data_files.LANDMINE)
def test_landmine_choices_hold_the_same_rows_of_a_field():
    usual, everything = load_landmine("usual"), load_landmine("all")
    assert len(everything.data) == 14820
    assert len(usual.data) < len(everything.data)
    for field in ("field01", "field16", "field24"):
        assert np.array_equal(usual.data[usual.tasks == field], everything.data[everything.tasks == field])
    rows = np.unique(everything.tasks, return_counts=True)[1]
    assert (rows.min(), rows.max()) == (445, 690)


@needs(data_files.SARCOS)
def test_sarcos_has_the_torques_in_y():
    arm = load_sarcos()
    assert arm.data.shape == (4449, 21)
    assert arm.target.shape == (4449, 7)
    assert arm.feature_names[7] == "velocity1"
    # The torques of the first joint are strongly linear in the inputs; those of a wrong column would not be.
    design = np.c_[arm.data, np.ones(len(arm.data))]
    residual = arm.target[:, 0] - design @ np.linalg.lstsq(design, arm.target[:, 0], rcond=None)[0]
    assert residual.var() < 0.1 * arm.target[:, 0].var()


@needs(data_files.SCHOOL)
def test_school_attributes():
    school = load_school()
    assert school.data.shape == (15362, 27)
    assert len(school.task_names) == 139
    assert (school.target.min(), school.target.max()) == (1, 70)
    for name in ("year", "gender", "ethnic_group", "school_gender", "denomination"):
        columns = [i for i, feature in enumerate(school.feature_names) if feature.startswith(f"{name}=")]
        assert np.all(school.data[:, columns].sum(axis=1) == 1)
    # What describes the school is constant within it: so the labels cut the rows where the schools change.
    columns = [i for i, feature in enumerate(school.feature_names) if feature.startswith(("school_", "denom"))]
    for task in school.task_names:
        assert np.ptp(school.data[school.tasks == task][:, columns], axis=0).max() == 0
    # Verbal reasoning band 1 is the best, 3 the weakest.
    means = [
        school.target[school.data[:, school.feature_names.index(f"vr_band={band}")] == 1].mean() for band in (1, 2, 3)
    ]
    assert means[0] > means[1] > means[2]


@needs(data_files.SCHOOL, *data_files.SCHOOL_SPLITS.values())
@pytest.mark.parametrize("split", [1, 10])
def test_school_splits(split):
    everything, school = load_school(), load_school(split)

    def rows(data, target):
        return sorted(map(tuple, np.column_stack([data, target]).tolist()))

    parts = np.vstack([school.data, school.data_test]), np.r_[school.target, school.target_test]
    assert rows(*parts) == rows(everything.data, everything.target)
    train, test = ([np.sum(tasks == task) for task in school.task_names] for tasks in (school.tasks, school.tasks_test))
    assert np.allclose(np.divide(train, np.add(train, test)), 0.75, atol=0.05)


@needs(*data_files.MFEAT.values())
def test_mfeat_views():
    digits = load_mfeat()
    assert digits.data.shape == (2000, 649)
    assert np.array_equal(np.bincount(digits.target), np.full(10, 200))
    widths = {view: digits.data[:, columns].shape[1] for view, columns in digits.views.items()}
    assert widths == {"fou": 76, "fac": 216, "kar": 64, "pix": 240, "zer": 47, "mor": 6}
    assert set(np.unique(digits.data[:, digits.views["pix"]])) == set(range(7))
    assert digits.feature_names[digits.views["kar"]] == [f"kar{i:03d}" for i in range(64)]


@needs(*data_files.MFEAT.values())
def test_mfeat_files_agree_on_the_digits():
    y = load_mfeat().target
    for file in data_files.MFEAT.values():
        assert np.array_equal(np.loadtxt(fetch(file), delimiter=",", skiprows=1)[:, -1], y)


@pytest.mark.parametrize("tasks", ["Usual", 19])
def test_landmine_refuses_other_tasks(tasks):
    with pytest.raises(ValueError, match=r"^tasks must be one of \['all', 'literal', 'usual'\], got"):
        load_landmine(tasks)


@pytest.mark.parametrize("split", [0, 11, "1"])
def test_school_refuses_other_splits(split):
    with pytest.raises(ValueError, match="split must be None or a number from 1 to 10"):
        load_school(split)


def test_corrupt_file_is_refused_by_the_loader(tmp_path):
    (tmp_path / "stock04.mat").write_bytes(b"not this")
    with pytest.raises(OSError, match=r"stock04\.mat is not the file that was expected"):
        load_stock(data_home=tmp_path)
