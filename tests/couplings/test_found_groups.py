"""Groups of tasks that `couplings="auto"` finds: real ones, and none where there are none."""

import numpy as np
import pytest

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels
from kernelkin.couplings import read_couplings
from kernelkin.couplings.groups import cluster, find_groups

GROUP = np.array([0, 1, 0, 1, 0, 1, 0, 1])


def make_tasks(seed, n_rows, difference, shift=0.0, sizes=None):
    """Eight tasks in two groups, whose functions and inputs differ by so much."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(8), n_rows if sizes is None else sizes)
    X = rng.normal(size=(len(code), 2)) + shift * GROUP[code, np.newaxis]
    y = X[:, 0] + difference * (2 * GROUP[code] - 1) * np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=len(code))
    return X, y, code


def data_of(X, y, tasks, classification=False):
    model = MKMTRLClassifier() if classification else MKMTRLRegressor()
    return model.training_data(X, y, tasks)


def agrees(labels):
    return np.array_equal(labels == labels[0], GROUP == 0)


@pytest.mark.parametrize("classification", [False, True])
def test_groups_of_functions_are_found(classification):
    X, y, tasks = make_tasks(0, 30, difference=1.5)
    found = find_groups(data_of(X, y > 0 if classification else y, tasks, classification))
    assert agrees(found.functions[0]) and not found.inputs and not found.inputs_differ


def test_groups_of_inputs_are_found():
    found = find_groups(data_of(*make_tasks(0, 20, difference=0.0, shift=1.5)))
    assert found.inputs_differ and agrees(found.inputs[0])


@pytest.mark.parametrize("seed", range(3))
def test_one_function_makes_no_groups(seed):
    """Nor do very different numbers of rows, though the functions of small tasks are far from all others."""
    for sizes in (None, [4, 60, 4, 60, 60, 60, 4, 60]):
        found = find_groups(data_of(*make_tasks(seed, 15, difference=0.0, sizes=sizes)))
        assert not found.functions and not found.inputs


def test_wide_data_have_groups_of_functions_only():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    Y = X[:, [0]] + 1.5 * (2 * GROUP - 1) * np.sin(2 * X[:, [1]]) + 0.3 * rng.normal(size=(40, 8))
    found = find_groups(data_of(X, Y, None))
    assert agrees(found.functions[0]) and not found.inputs


def test_precomputed_kernels_show_groups_too():
    X, y, tasks = make_tasks(0, 30, difference=1.5)
    gram = np.exp(-np.square(X[:, np.newaxis] - X).sum(axis=2))[:, :, np.newaxis]
    model = MKMTRLRegressor("precomputed")
    found = find_groups(model.training_data(gram, y, tasks))
    assert agrees(found.functions[0])


def test_few_tasks_have_a_common_part_alone():
    X, y, tasks = make_tasks(0, 30, difference=1.5)
    few = tasks < 3
    couplings = read_couplings("auto", data_of(X[few], y[few], tasks[few]))
    assert [coupling.name for coupling in couplings] == ["common"]


def test_auto_predicts_better_where_there_are_groups():
    X, y, tasks = make_tasks(0, 20, difference=1.0)
    X_test, y_test, tasks_test = make_tasks(1, 200, difference=1.0)
    scores = {}
    for couplings in (None, "common", "auto"):
        model = MKMTRLRegressor(gaussian_kernels((0.5, 1.0)), couplings=couplings, sharing=0.5)
        scores[couplings] = model.fit(X, y, tasks=tasks).score(X_test, y_test, tasks=tasks_test)
    assert scores["auto"] > max(scores[None], scores["common"]) + 0.05


def test_shared_parts_are_charged_by_how_far_functions_agree():
    """A part of all tasks costs T^(1 - sharing) where they are one function, and T where groups differ altogether."""
    alike, apart = (
        {each.name: each.charge for each in read_couplings("auto", data_of(*make_tasks(0, 30, difference)), 0.5)}
        for difference in (0.0, 4.0)
    )
    assert alike["common"] == pytest.approx(8**-0.5, rel=0.2)
    assert apart["common"] == pytest.approx(1 / 8, rel=0.01)
    assert apart["2 groups by functions"] == pytest.approx(4**-0.5, rel=0.2)


def test_tasks_with_functions_of_their_own_support_no_common_part():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(240, 2)), np.repeat(np.arange(6), 40)
    angles = np.arange(6) * np.pi / 3
    y = np.cos(angles)[tasks] * X[:, 0] + np.sin(angles)[tasks] * X[:, 1] + 0.1 * rng.normal(size=240)
    found = find_groups(data_of(X, y, tasks))
    assert found.support(np.ones((6, 6))) == 0.0
    neighbours = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1
    assert 0.0 < found.support(neighbours.astype(float)) < 1.0
    assert found.support(np.eye(6)) == 1.0


def test_groups_are_found_anew_in_every_fold():
    """Held-out targets do not reach the groups: those of a fold's training rows are the same whatever they are."""
    X, y, tasks = make_tasks(0, 30, difference=1.0)
    data = data_of(X, y, tasks)
    kept = [np.arange(20)] * 8
    changed = y.copy()
    held = np.concatenate([rows[20:] for rows in data.rows])
    changed[held] = np.random.default_rng(1).permutation(y[held])
    before, after = (find_groups(data_of(X, each, tasks).take(kept)) for each in (y, changed))
    assert len(before.functions) == len(after.functions) > 0
    assert all(np.array_equal(*pair) for pair in zip(before.functions, after.functions, strict=True))


def test_clusters_join_close_tasks():
    x = np.array([0.0, 5.0, 0.1, 5.1, 9.0])
    labels = cluster(np.square(x[:, np.newaxis] - x), 3)
    assert labels[0] == labels[2] != labels[1] == labels[3] != labels[4] != labels[0]
