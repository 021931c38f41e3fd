"""
From a messy table to predictions one can trust
===============================================

A table as it is exported: dates as text, prices with a currency, gaps, row numbers. :class:`~kernelkin.KinRegressor`
reads it, says how much of the variation is between shops, and how sure it is; a report says whether sharing between
shops pays; the saved model predicts new tables.
"""

# %%
# Sales of six shops. The features are what a shop would write down.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kernelkin import KinRegressor, load_model, save_model, sharing_report
from kernelkin.plots import CoverageDisplay, IntervalsDisplay
from kernelkin.tables import TableSchema

rng = np.random.default_rng(0)
size, season = np.exp(0.5 * rng.normal(size=6)), rng.normal(size=6)


def as_exported(n_days, first_row):
    """The rows as somebody would have written them down, and sales."""
    n = 6 * n_days
    shop, day, price = np.repeat(np.arange(6), n_days), rng.integers(0, 365, n), rng.uniform(2, 4, n)
    year = 2 * np.pi * day / 365
    temperature = 13 - 8 * np.cos(year) + 5 * rng.normal(size=n)
    warm = 2 * np.exp(-(((temperature - 24) / 6) ** 2))
    demand = np.sin(year) + season[shop] * np.cos(year) + warm - price + 0.3 * rng.normal(size=n)
    date = (pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")).strftime("%d.%m.%Y")
    table = pd.DataFrame({"row": range(first_row, first_row + n), "shop": shop + 1, "date": date})
    table["shop"] = "shop " + table["shop"].astype(str)
    table["price"] = [f"{each:,.2f} EUR" for each in price]
    table["temperature (C)"] = np.where(np.arange(n) % 9 == 0, np.nan, temperature.round(1))
    return table, size[shop] * (100 + 20 * demand)


(train, sales), (test, test_sales) = as_exported(15, 0), as_exported(50, 1000)
train.head()

# %%
# ``task_column`` names the column of tasks; everything else is read by a :class:`~kernelkin.TableEncoder`, which says
# what it did.

model = KinRegressor(task_column="shop", cv=3, random_state=0).fit(train, sales)
print(model.encoder_.describe())
print(model.explain())
print(f"R\u00b2 on other days: {model.score(test, test_sales):.2f}")

# %%
# How sure is a prediction?
# -------------------------
# Intervals come with every regressor. Left, predictions of some days with intervals of 90%; right, how many targets the
# intervals contain, against how many they should.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
IntervalsDisplay.from_estimator(model, test, test_sales, ax=axes[0])
CoverageDisplay.from_estimator(model, test, test_sales, ax=axes[1])
plt.show()

# %%
# Does sharing help here?
# -----------------------
# :func:`~kernelkin.sharing_report` compares a model with simpler ones inside the training rows. The last line of the
# :class:`~kernelkin.relations.SharingReport` is a recommendation, which may be something simpler, and names the class
# that makes it.

print(sharing_report(model, train, sales, cv=3, new_groups=False, random_state=0))

# %%
# Save it
# -------
# With a :class:`~kernelkin.tables.TableSchema` a saved model predicts tables as they are: :func:`~kernelkin.load_model`
# returns a :class:`~kernelkin.storage.SavedModel`. ``kernelkin fit`` does the same from a file. A file that is damaged
# or dangerous is refused with a :class:`~kernelkin.exceptions.ModelFileError`.

labelled = train.assign(sales=sales)
schema = TableSchema.fit(labelled, task="shop", target="sales", regression=True)
shared = KinRegressor(cv=3, random_state=0).fit(
    schema.encode_table(labelled), schema.targets(labelled), tasks=schema.tasks(labelled)
)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "shops.kin")
    save_model(shared, path, schema=schema)
    saved = load_model(path)
print(saved.predict(test.head(3)).round(1))
