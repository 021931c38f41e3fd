"""
From a table to an answer
=========================

No line of Python is needed: ``kernelkin`` on the command line reads a table, fits, compares on rows it held out, saves
the model, and predicts. Here its commands are run from Python, so that this page can show what they print.
"""

# %%
# A table as one would have it: patients of a diabetes study, in groups by age, with text among the columns.

# sphinx_gallery_thumbnail_path = 'images/report.png'
import tempfile
from contextlib import chdir
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

from kernelkin import load_model
from kernelkin.cli.main import main

folder = Path(tempfile.mkdtemp())
table = load_diabetes(as_frame=True, scaled=False).frame
edges = np.quantile(table["age"], [0.25, 0.5, 0.75])
table["group"] = np.array(["young", "middle", "older", "old"])[np.digitize(table["age"], edges)]
table["sex"] = np.where(table["sex"] == 1, "a", "b")
table = table.rename(columns={"target": "progression"}).round(3)
table.to_csv(folder / "patients.csv", index=False)
print((folder / "patients.csv").read_text()[:300])


def kernelkin(command):
    """Run a command as one would type it, in the folder of the table."""
    print("$ kernelkin", command)
    with chdir(folder):
        assert main(command.split()) == 0


# %%
# Fit: what is to be predicted, and which column holds the group. The rest is guessed, and the guesses are printed.
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
# Predict: a column is added to the table, however long it is.

kernelkin("predict model.kin patients.csv -o predicted.csv")
print((folder / "predicted.csv").read_text()[:300])

# %%
# Every command has a ``--help`` with examples. From Python, ``report()`` of any fitted model returns such a page, a
# :class:`~kernelkin.report.Report`; ``save`` writes it.
