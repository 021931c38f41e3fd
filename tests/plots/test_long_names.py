import numpy as np
import pandas as pd
import pytest

from kernelkin.kin.effects import ColumnEffect
from kernelkin.plots import (
    ColumnEffectDisplay,
    KernelWeightsDisplay,
    TaskEffectsDisplay,
    TaskRelationshipDisplay,
    TaskScoresDisplay,
)
from plots.plot_relations import relations

TASKS = [f"the grammar school of the town with number {t}" for t in range(12)]
rng = np.random.default_rng(0)
WEIGHTS = rng.dirichlet(np.ones(5), size=12)
RELATIONS = relations(np.arange(12) % 2, TASKS)
EFFECTS = pd.DataFrame(
    {"level": rng.normal(size=12), "standard_error": 0.2, "raw_level": rng.normal(size=12)}, index=TASKS
)
DRAWN = {
    "weights": lambda: KernelWeightsDisplay(
        WEIGHTS, TASKS, [f"a column with a long name {k}" for k in range(5)]
    ).plot(),
    "heatmap": lambda: TaskRelationshipDisplay(RELATIONS).plot(),
    "scores": lambda: TaskScoresDisplay({"ours": rng.random(12), "theirs": rng.random(12)}, TASKS).plot(),
    "effects": lambda: TaskEffectsDisplay(EFFECTS).plot(),
}


@pytest.mark.parametrize("name", DRAWN)
def test_long_names_are_shortened_and_inside_the_picture(name):
    display = DRAWN[name]()
    display.figure_.draw_without_rendering()  # the layout warns, and warnings are errors, where it finds no room
    texts = [*display.ax_.get_yticklabels(), *display.ax_.get_xticklabels()]
    texts = [text for text in texts if "…" in text.get_text()]
    assert len(texts) >= len(TASKS)
    inside = display.figure_.bbox.padded(1)
    for text in texts:
        box = text.get_window_extent()
        assert inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1), text.get_text()


def test_names_that_differ_in_the_middle_are_drawn_differently():
    names = [f"the grammar school of {town}, in the north of the county" for town in ("Ely", "Rye", "Ryton")]
    scores = TaskScoresDisplay({"ours": [0.1, 0.2, 0.3]}, names).plot()
    drawn = {text.get_text() for text in scores.ax_.get_yticklabels()}
    assert len(drawn) == 3 and all("…" in text for text in drawn)
    assert sum("Ry" in text for text in drawn) == 2
    effect = ColumnEffect(np.arange(3.0), np.zeros(3), np.ones(3), rng.normal(size=(3, 3)), np.array(names))
    legend = ColumnEffectDisplay(effect, "size", groups=names).plot().ax_.get_legend()
    assert drawn < {text.get_text() for text in legend.get_texts()}


@pytest.mark.parametrize("name", ["weights", "heatmap"])
def test_numbers_fit_into_their_cells(name):
    display = DRAWN[name]()
    display.figure_.draw_without_rendering()
    assert len(display.texts_) == display.image_.get_array().size
    cell = display.ax_.get_window_extent().width / display.image_.get_array().shape[1]
    assert max(text.get_window_extent().width for text in display.texts_) < cell
