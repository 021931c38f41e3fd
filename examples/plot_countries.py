"""
Few years, many countries
=========================

Births per woman in 210 countries, of which about four years each are known. :class:`~kernelkin.KinRegressor` learns
what the curves have in common from all countries and the rest from each country's own years. This page draws what it
has learned: curves, shares of variance, and how countries differ. The data come with statsmodels.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.metrics import r2_score
from statsmodels.datasets import fertility

from kernelkin import KinRegressor
from kernelkin.plots import ColumnEffectDisplay, TaskEffectsDisplay, VarianceSharesDisplay

wide = fertility.load_pandas().data.rename(columns={"Country Name": "country"})
table = wide.melt("country", map(str, range(1960, 2012)), "year", "births").dropna().astype({"year": int})
train = table.sample(800, random_state=0)
test = table.drop(train.index)

columns = ["country", "year"]
model = KinRegressor(task_column="country", random_state=0).fit(train[columns], train["births"])
print(f"R² {r2_score(test['births'], model.predict(test[columns])):.3f} on {len(test)} other years")

# %%
# The effect of a column: the curve that all countries have in common with its band, and thin lines for countries. Named
# ones are in colour. Brazil and South Korea fall fast; births in Niger stay high.

named = ["Niger", "Brazil", "Korea, Rep.", "France"]
ColumnEffectDisplay.from_estimator(model, "year", groups=named)
plt.show()

# %%
# Where is the variation? Two thirds of it are between the levels of countries; of the rest, some is common to all and
# some is each country's own.

VarianceSharesDisplay.from_estimator(model)
plt.show()

# %%
# How does each country differ from the average one? The largest and the smallest effects, with 90% intervals, and what
# the rows of a country would say without pooling.

TaskEffectsDisplay.from_estimator(model)
plt.show()

# %%
# The same as a table, with the slope of each country along the years.

print(model.task_effects().loc[named].round(2).T)
