"""
From a table to an answer
=========================

No line of Python is needed: ``kernelkin`` on the command line reads a table, fits, compares on rows it held out, saves
the model, and predicts. Here its commands are run from Python, so that this page can show what they print.
"""

# %%
# A table as one would have it: patients of a diabetes study, in groups by age, with text among the columns. Sixty
# patients are kept for later.

import tempfile
from contextlib import chdir
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from kernelkin import load_model
from kernelkin.cli.main import main

folder = Path(tempfile.mkdtemp())
table = load_diabetes(as_frame=True, scaled=False).frame
edges = np.quantile(table["age"], [0.25, 0.5, 0.75])
table["group"] = np.array(["young", "middle", "older", "old"])[np.digitize(table["age"], edges)]
table["sex"] = np.where(table["sex"] == 1, "a", "b")
table = table.rename(columns={"target": "progression"}).round(3)
later = table.sample(60, random_state=0)
table.drop(later.index).to_csv(folder / "patients.csv", index=False)
later.drop(columns="progression").to_csv(folder / "new.csv", index=False)
print((folder / "patients.csv").read_text()[:300])


def kernelkin(command):
    """Run a command as one would type it, in the folder of the table."""
    print("$ kernelkin", command)
    with chdir(folder):
        assert main(command.split()) == 0


# %%
# Fit: what is to be predicted, and which column holds the group. The rest is inferred and printed.
# ``--no-comparison`` leaves out the comparison with simpler models on rows held out, so that this page is made quickly,
# and the parameters are those of a model of the paper. :doc:`/guide/command_line` has a session without these options.

kernelkin("fit patients.csv --task group --target progression --set couplings=common --no-comparison -o model.kin")

# %%
# What is in the file?

kernelkin("inspect model.kin")

# %%
# The report has the same and more, in one file that needs no network. Here it is, to try: sort the table, or search
# for a group.

kernelkin("report model.kin -o report.html")
load_model(folder / "model.kin").report()

# %%
# Predict the patients that were kept: columns are added to the table, however long it is. ``--interval`` adds the ends
# of intervals that contain nine of ten targets.

kernelkin("predict model.kin new.csv --interval -o predicted.csv")
print((folder / "predicted.csv").read_text()[:300])

# %%
# How far off are they? A bar for each patient, from low to high predictions, and what was measured later.

predicted = pd.read_csv(folder / "predicted.csv").assign(measured=later["progression"].to_numpy())
figure, panels = plt.subplots(1, 4, figsize=(10, 3.6), sharey=True, layout="constrained")
for panel, group in zip(panels, ["young", "middle", "older", "old"], strict=True):
    rows = predicted[predicted["group"] == group].sort_values("prediction")
    inside = rows["measured"].between(rows["prediction_low"], rows["prediction_high"])
    place = np.arange(len(rows))
    panel.vlines(
        place, rows["prediction_low"], rows["prediction_high"], color="#9ecae1", linewidth=5, label="90% interval"
    )
    panel.plot(place, rows["prediction"], "_", color="#0072B2", markersize=7, markeredgewidth=2, label="predicted")
    panel.plot(place[inside], rows["measured"][inside], "o", color="black", markersize=4, label="measured")
    panel.plot(place[~inside], rows["measured"][~inside], "o", color="#D55E00", markersize=5, label="measured, outside")
    panel.set(title=group, xlabel="patients", xticks=[])
    panel.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("progression of the disease")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
plt.show()

# %%
# Every command has a ``--help`` with examples. From Python, ``report()`` of any fitted model returns such a page, a
# :class:`~kernelkin.report.Report`; ``save`` writes it.
