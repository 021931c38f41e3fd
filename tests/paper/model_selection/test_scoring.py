import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    f1_score,
    log_loss,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

from kernelkin import MKMTRLClassifier
from kernelkin.calibration import Link
from kernelkin.data.folds import make_folds
from kernelkin.data.forms import read_training
from kernelkin.paper.model_selection.scoring import METRICS, PooledScorer, Scorer, read_scoring, target_spreads

THEIRS = {
    "accuracy": accuracy_score,
    "r2": r2_score,
    "neg_mean_squared_error": lambda y, s, sample_weight: -mean_squared_error(y, s, sample_weight=sample_weight),
    "roc_auc": roc_auc_score,
}


def test_metrics_are_those_of_scikit_learn():
    for name in THEIRS:
        rng = np.random.default_rng(0)
        y, weight = rng.random(40) < 0.3, rng.integers(1, 4, 40).astype(float)
        # Coarse values, so that there are ties.
        predicted = rng.random(40) < 0.4 if name == "accuracy" else np.round(rng.normal(size=40) + y, 1)
        truth = y if name in ("accuracy", "roc_auc") else rng.normal(size=40)
        expected = THEIRS[name](truth, predicted, sample_weight=weight)
        assert METRICS[name].function(truth, predicted, weight) == pytest.approx(expected)


def judged(metric, seed=0, positives=3, n=15):
    """Two tasks with few positives, their folds, and random decision values."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([rng.permutation(np.arange(n) < positives) for _ in range(2)])
    model = MKMTRLClassifier()
    data = model.training_data(rng.normal(size=(2 * n, 1)), y, np.repeat([0, 1], n))
    folds = make_folds(data, 5, classification=True, random_state=0)
    values = [rng.normal(size=n) for _ in range(2)]
    outputs = [[values[t][fold.held[t]][:, None] for t in range(2)] for fold in folds]
    return data, values, Scorer(data, folds, metric, classification=True).score(outputs)


def test_auc_is_that_of_pooled_values_though_folds_lack_positives():
    data, values, (score, error, alone) = judged(METRICS["roc_auc"])
    expected = np.mean([roc_auc_score(y, v) for y, v in zip(data.y, values, strict=True)])
    assert score == pytest.approx(expected)
    assert np.isfinite(error) and error > 0
    assert len(alone) == 5


def test_standard_error_of_a_mean_over_equal_folds_is_the_usual_one():
    _, _, (score, error, alone) = judged(METRICS["accuracy"])
    assert score == pytest.approx(alone.mean())
    assert error == pytest.approx(alone.std(ddof=1) / np.sqrt(5))


def test_a_task_without_positives_among_held_out_rows_is_left_out():
    for scoring in ["f1", "roc_auc", "average_precision", lambda y, v: roc_auc_score(y, v)]:
        _, _, (score, *_) = judged(read_scoring(scoring, classification=True), positives=1)
        assert score == 0 if scoring == "f1" else np.isnan(score)


def test_names_of_scikit_learn():
    rng = np.random.default_rng(0)
    y, predicted = rng.random(20) < 0.5, rng.random(20) < 0.5
    metric = read_scoring("f1", classification=True)
    assert metric.function(y, predicted, np.ones(20)) == pytest.approx(f1_score(y, predicted))
    distance = read_scoring("neg_mean_absolute_error", classification=False)
    assert distance.function(np.array([0.0, 1.0]), np.array([0.5, 1.0]), np.array([1.0, 3.0])) == -0.125
    with pytest.raises(ValueError, match="needs predict_proba; searches support only"):
        read_scoring("roc_auc_ovr", classification=True)


def test_r2_of_one_row_is_undefined():
    assert np.isnan(METRICS["r2"].function(np.ones(1), np.ones(1), np.ones(1)))


@pytest.mark.parametrize(("scoring", "theirs"), [("neg_log_loss", log_loss), ("neg_brier_score", brier_score_loss)])
def test_probabilities_are_scored_with_one_link(scoring, theirs):
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(80, 1)), np.repeat(["a", "b"], 40)
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    data = read_training(X, y, tasks, None, classification=True)
    folds = make_folds(data, 4, classification=True, random_state=0)
    outputs = [[X[rows[held]] for rows, held in zip(data.rows, fold.held, strict=True)] for fold in folds]
    metric = read_scoring(scoring, classification=True)
    found = Scorer(data, folds, metric, classification=True).score(outputs)[0]
    p, link = np.empty((2, 40)), Link.of_tasks([X], [y], [np.ones(80)])
    for fold in folds:
        for t in range(2):
            p[t, fold.held[t]] = link(X[data.rows[t][fold.held[t]]])[:, 0]
    expected = np.mean([-theirs(y[tasks == name], p[t]) for t, name in enumerate("ab")])
    assert found == pytest.approx(expected, rel=1e-3)


def test_scores_of_probabilities_are_for_classifiers():
    with pytest.raises(ValueError, match="scoring='neg_log_loss' scores probabilities and is only for classifiers"):
        read_scoring("neg_log_loss", classification=False)


def test_equal_targets_have_no_variance_though_their_mean_is_rounded():
    y, weight = np.full(6, 0.1), np.ones(6)
    assert y.mean() != 0.1
    assert np.isnan(METRICS["r2"].function(y, y + 1e-3, weight))
    rng = np.random.default_rng(0)
    others, tasks = rng.normal(size=12), np.repeat([0, 1, 2], 6)
    constant, whole = (
        target_spreads(read_training(np.zeros((18, 1)), np.append(others, last), tasks, None, classification=False))
        for last in (y, np.ones(6))
    )
    # A task of ones, whose mean is exact, has the scale of a typical task.
    np.testing.assert_allclose(constant, whole, rtol=1e-12)


def test_pooled_errors_and_spreads_count_rows_by_their_weights():
    """Half of the rows are far away and have nearly no weight."""
    rng = np.random.default_rng(0)
    tasks, far = np.repeat([0, 1], 200), np.tile([False, True], 200)
    y, weight = rng.normal(size=400) * (1 + 4 * tasks) * (1 + 99 * far), np.where(far, 1e-9, rng.uniform(0.5, 3.0, 400))
    data = read_training(np.zeros((400, 1)), y, tasks, weight, classification=False)
    spread = target_spreads(data)
    near = [np.sqrt(np.cov(y[own], aweights=weight[own], ddof=0)) for own in (~far & (tasks == t) for t in (0, 1))]
    np.testing.assert_allclose(spread, near, rtol=0.02)
    folds = make_folds(data, 4, classification=False, random_state=0)
    outputs = [[np.ones((len(held), 1)) for held in fold.held] for fold in folds]
    score = PooledScorer(data, folds, classification=False).score(outputs)[0]
    assert score == pytest.approx(1 - np.average(((y - 1) / spread[tasks]) ** 2, weights=weight))


def test_a_class_that_training_rows_lack_has_probability_zero():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 1)), np.tile([0, 1, 2], 10)
    data, rows = read_training(X, y, None, None, classification=True), np.arange(30)
    kept = [rows[y != 2], rows[rows % 2 == 0]]
    folds = make_folds(data, [(part, np.setdiff1d(rows, part)) for part in kept], classification=True)
    outputs = [[rng.normal(size=(10, 1))], [rng.normal(size=(15, 3))]]
    brier = read_scoring("neg_brier_score", classification=True)
    *_, alone = Scorer(data, folds, brier, classification=True).score(outputs)
    # All rows held out of the first fold are of that class: an error of one, and the squares of two probabilities.
    assert -2.0 <= alone[0] <= -1.5


def test_a_row_of_a_class_that_training_rows_lack_is_neither_of_two_others():
    y, rows = np.tile([0, 1, 2], 10), np.arange(30)
    data = read_training(np.zeros((30, 1)), y, None, None, classification=True)
    kept = [rows[y != 2], rows[rows % 2 == 0]]
    folds = make_folds(data, [(part, np.setdiff1d(rows, part)) for part in kept], classification=True)
    # The values of the first fold say "0", then "1"; all rows held out of it are of class 2.
    sizes = [len(fold.held[0]) for fold in folds]
    outputs = [[[np.full((sizes[0], 1), sign)], [np.zeros((sizes[1], 3))]] for sign in (-3.0, 3.0)]
    zero, one = (PooledScorer(data, folds, classification=True).score(given) for given in outputs)
    assert zero[0] == pytest.approx(one[0], rel=1e-9)
    assert zero[2][0] == pytest.approx(one[2][0], rel=1e-9)

    def first(y, values):
        assert values.shape[1] == 3
        return float((values[:, 2] == -np.inf).sum())

    found, *_ = Scorer(data, folds, read_scoring(first, classification=True), classification=True).score(outputs[0])
    assert found == sizes[0]


def test_a_task_of_one_class_has_the_classes_of_the_training_rows_of_others():
    y, tasks, rows = (
        np.r_[np.tile([0, 1, 2], 10), np.zeros(6, dtype=int)],
        np.repeat(["a", "b"], [30, 6]),
        np.arange(36),
    )
    data = read_training(np.zeros((36, 1)), y, tasks, None, classification=True)
    # Without class 2, both tasks of the first fold have one value, for class 1.
    held = [np.r_[0, 1, 3, 4, rows[y == 2], 30:33], np.r_[6, 7, 33:36]]
    folds = make_folds(data, [(np.setdiff1d(rows, part), part) for part in held], classification=True)
    own = np.array([-3.0, 3.0, 0.0])[data.y[0][folds[0].held[0]], None]
    scores = []
    for sign in (-3.0, 3.0):
        outputs = [[own, np.full((3, 1), sign)], [np.zeros((2, 3)), np.zeros((3, 3))]]
        scores.append(PooledScorer(data, folds, classification=True).score(outputs)[2][0])
    assert scores[0] > scores[1] + 0.1
