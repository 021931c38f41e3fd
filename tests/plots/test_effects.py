"""Displays of effects: which groups are drawn, what the marks show, and curves of columns."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.dates import num2date

from kernelkin import KinClassifier, KinRegressor
from kernelkin.kin.effects import ColumnEffect, column_effect
from kernelkin.plots import ColumnEffectDisplay, TaskEffectsDisplay, VarianceSharesDisplay

WEIGHT = np.random.default_rng(1).uniform(0.5, 3.0, 48)


def made_effects(T):
    rng = np.random.default_rng(0)
    level = rng.normal(size=T)
    found = {"level": level, "standard_error": rng.uniform(0.1, 0.3, T), "raw_level": 1.5 * level}
    found |= {"slope of size": -level, "standard_error of size": np.full(T, 0.2)}
    return pd.DataFrame(found, index=pd.Index([f"g{t:03d}" for t in range(T)], name="school"))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    N, tasks = 48, np.repeat([f"s{t}" for t in range(6)], 8)
    days = pd.Timestamp("2021-03-01") + pd.to_timedelta(np.arange(N) * 15, "D")
    frame = pd.DataFrame({"size": rng.normal(100, 20, N), "day": days, "kind": np.tile(["red", "blue"], N // 2)})
    y = np.repeat(rng.normal(size=6), 8) + 0.05 * frame["size"] + (frame["kind"] == "red") + 0.2 * rng.normal(size=N)
    return frame, y.to_numpy(), tasks


@pytest.fixture(scope="module")
def model(table):
    X, y, tasks = table
    return KinRegressor(random_state=0, cv=2).fit(X, y, tasks=tasks, sample_weight=WEIGHT)


def test_few_groups_are_all_drawn_with_intervals_and_arrows():
    effects = made_effects(5)
    display = TaskEffectsDisplay(effects).plot()
    assert display.shown_ == effects["level"].sort_values().index.tolist()
    bars = display.ax_.collections[0].get_segments()
    widths = [end[0] - start[0] for start, end in bars]
    np.testing.assert_allclose(widths, 2 * 1.6448536 * effects.loc[display.shown_, "standard_error"])
    arrows = [text for text in display.ax_.texts if text.arrow_patch is not None]
    assert 1 <= len(arrows) <= 5


def test_of_many_groups_the_extremes_and_the_named_ones_are_drawn():
    effects = made_effects(500)
    middle = effects["level"].sort_values().index[250]
    display = TaskEffectsDisplay(effects, groups=[middle]).plot()
    assert len(display.shown_) == 31 and middle in display.shown_
    assert display.shown_[0] == effects["level"].idxmin() and display.shown_[-1] == effects["level"].idxmax()
    assert sorted(filter(None, (text.get_text() for text in display.ax_.texts))) == ["234 more", "235 more"]


def test_slopes_are_drawn_in_their_own_order():
    effects = made_effects(4)
    display = TaskEffectsDisplay(effects, column="size").plot()
    assert display.shown_ == effects["slope of size"].sort_values().index.tolist()
    assert "slope of size" in display.ax_.get_xlabel()
    with pytest.raises(ValueError, match="no slope of 'age'; they have slopes of 'size'"):
        TaskEffectsDisplay(effects, column="age")
    with pytest.raises(ValueError, match="unknown groups 'x'"):
        TaskEffectsDisplay(effects, groups=["x"])


def test_effects_shares_and_curves_of_a_model_are_drawn(model):
    display = TaskEffectsDisplay.from_estimator(model)
    assert sorted(display.shown_) == model.tasks_.tolist() and "units of the target" in display.ax_.get_xlabel()
    shares = VarianceSharesDisplay.from_estimator(model)
    assert {name: bar.get_width() for name, bar in shares.bars_.items()} == pytest.approx(model.variance_components_)


def test_the_curve_of_a_column_is_the_mean_prediction_with_that_value(model, table):
    X, _, _ = table
    effect = column_effect(model, "size", ["s0", "s3"])
    for v in (0, -1):
        rows = X.assign(size=effect.values[v])
        each = [np.average(model.predict(rows, tasks=[name] * 48), weights=WEIGHT) for name in model.tasks_]
        np.testing.assert_allclose(effect.curves[:, v], [each[0], each[3]], rtol=1e-7)
        np.testing.assert_allclose(effect.mean[v], np.mean(each), rtol=1e-7)
    assert (effect.standard_error > 0).all()
    display = ColumnEffectDisplay.from_estimator(model, "size", groups=["s3"])
    assert "s3" in [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_dates_are_dates_and_texts_are_points(model, table):
    display = ColumnEffectDisplay.from_estimator(model, "day")
    years = [num2date(x).year for x in display.ax_.get_xlim()]
    assert years == [2021, 2023]
    display = ColumnEffectDisplay.from_estimator(model, "kind")
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["blue", "red"]
    with pytest.raises(ValueError, match="unknown column 'width'; this model has 'size', 'day', 'kind'"):
        column_effect(model, "width", [])


def test_booleans_and_texts_have_all_their_values():
    rng = np.random.default_rng(0)
    N, tasks = 48, np.repeat([f"s{t}" for t in range(6)], 8)
    X = pd.DataFrame({"flag": rng.random(N) < 0.5, "kind": rng.choice(["red", "blue", None], N)})
    y = 2.0 * X["flag"] + X["kind"].isna() + 0.1 * rng.normal(size=N)
    model = KinRegressor(random_state=0, cv=2).fit(X, y, tasks=tasks)
    for column, words, cells in (
        ("flag", ["no", "yes"], [False, True]),
        ("kind", ["blue", "red", "missing"], ["blue", "red", None]),
    ):
        effect = column_effect(model, column, ["s1"])
        assert effect.values.tolist() == words
        rows = [X.assign(**{column: [cell] * N}) for cell in cells]
        expected = [model.predict(each, tasks=["s1"] * N).mean() for each in rows]
        np.testing.assert_allclose(effect.curves[0], expected, rtol=1e-7)
    display = ColumnEffectDisplay.from_estimator(model, "flag")
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["no", "yes"]


def test_three_classes_have_a_curve_of_the_probability_of_each(table):
    X, y, tasks = table
    X = X.assign(size=X["size"].clip(80, 120))
    named = np.array(["low", "medium", "high"])[np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))]
    model = KinClassifier(random_state=0, cv=2).fit(X, named, tasks=tasks, sample_weight=WEIGHT)
    for column in ("size", "kind"):
        effect = column_effect(model, column, [])
        assert effect.groups.tolist() == ["high", "low", "medium"] and effect.mean is None
        for v in (0, -1):
            p = model.predict_proba(X.assign(**{column: effect.values[v]}), tasks)
            np.testing.assert_allclose(effect.curves[:, v], np.average(p, axis=0, weights=WEIGHT), rtol=1e-7)
        display = ColumnEffectDisplay.from_estimator(model, column)
        assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["high", "low", "medium"]
        assert display.ax_.get_ylabel() == "mean prediction (probability)"
        drawn = [line.get_ydata() for line in display.ax_.get_lines()]
        np.testing.assert_allclose(drawn, effect.curves)
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["blue", "red"]
    with pytest.raises(ValueError, match="curves of groups are for regression and for two classes"):
        ColumnEffectDisplay.from_estimator(model, "size", groups=["s1"])


def inside(display, artist):
    """Whether an artist is inside of the figure, once it is drawn."""
    display.figure_.draw_without_rendering()
    box, whole = artist.get_window_extent(), display.figure_.bbox
    return box.x0 >= 0 and box.y0 >= 0 and box.x1 <= whole.width and box.y1 <= whole.height


def test_long_names_of_classes_and_texts_do_not_push_labels_out():
    classes = np.array([f"a class with a long name {k}, longer than others" for k in range(3)])
    effect = ColumnEffect(np.arange(4.0), None, None, np.eye(3, 4), classes)
    display = ColumnEffectDisplay(effect, "size", unit="probability").plot()
    assert inside(display, display.ax_.get_legend())
    # As wide as with short names.
    short = ColumnEffectDisplay(effect._replace(groups=np.array(list("abc"))), "size", unit="probability").plot()
    assert inside(short, short.ax_.get_legend())
    assert display.ax_.get_window_extent().width > 0.95 * short.ax_.get_window_extent().width
    texts = np.array([f"text number {k} of a column with long texts" for k in range(6)], dtype=object)
    effect = ColumnEffect(texts, np.zeros(6), np.ones(6), np.ones((1, 6)), np.array(["a"]))
    display = ColumnEffectDisplay(effect, "reason", unit="logarithm of the count").plot()
    assert inside(display, display.ax_.yaxis.label)


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_marks_stand_out_from_the_ground(style):
    with plt.style.context(style):
        effect = ColumnEffect(np.arange(4.0), None, None, np.eye(3, 4), np.array(list("abc")))
        curves = ColumnEffectDisplay(effect, "size").plot()
        effects = TaskEffectsDisplay(made_effects(40)).plot()
    ground = np.array(to_rgb(curves.ax_.get_facecolor()))
    for line in curves.ax_.get_lines():
        assert np.abs(np.array(to_rgb(line.get_color())) - ground).max() > 0.3
    # What is without pooling is an outline, and the note has the colour of the ground behind it.
    raw = next(c for c in effects.ax_.collections if c.get_label() == "without pooling")
    assert len(raw.get_facecolor()) == 0 and np.abs(raw.get_edgecolor()[0, :3] - ground).max() > 0.3
    (note,) = [text for text in effects.ax_.texts if text.get_text() == "10 more"]
    assert to_rgb(note.get_bbox_patch().get_facecolor()) == tuple(ground)
    assert np.abs(np.array(to_rgb(note.get_color())) - ground).max() > 0.3


def test_columns_of_arrays_go_by_position_and_classes_are_log_odds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.normal(size=60) > 0
    model = KinClassifier(random_state=0, cv=2).fit(X, y, tasks=np.arange(60) % 3)
    display = ColumnEffectDisplay.from_estimator(model, 0)
    assert "log odds" in display.ax_.get_ylabel() and display.ax_.get_xlabel() == "column 0"
    assert display.effect.mean[-1] > display.effect.mean[0] + 1
    wide = KinRegressor(random_state=0, cv=2).fit(X, np.column_stack([X[:, 0], 2 * X[:, 0] + 1]))
    effect = column_effect(wide, 0, [0, 1])
    predicted = [wide.predict(np.column_stack([np.full(60, value), X[:, 1]])).mean(0) for value in effect.values]
    np.testing.assert_allclose(effect.curves.T, predicted, atol=0.05)


def test_curves_over_times_of_day_follow_the_time_of_day():
    """There are no dates whose trend a curve could show: each of its points is the mean prediction at that time."""
    minutes = np.random.default_rng(0).permutation(1440)[:96]
    X = pd.DataFrame({"when": [f"{m // 60:02d}:{m % 60:02d}:00" for m in minutes]})
    y = np.cos(2 * np.pi * minutes / 1440) + 0.1 * np.random.default_rng(1).normal(size=96)
    model = KinRegressor(random_state=0, cv=2).fit(X, y, tasks=np.arange(96) % 4)
    effect = column_effect(model, "when", [0])
    for v in (20, 40, 60):
        cell = str(effect.values[v])[11:19]
        each = [model.predict(pd.DataFrame({"when": [cell]}), tasks=[task])[0] for task in range(4)]
        np.testing.assert_allclose([effect.curves[0, v], effect.mean[v]], [each[0], np.mean(each)], rtol=1e-6)
    assert effect.mean.max() > 0.7 and effect.mean.min() < -0.7
