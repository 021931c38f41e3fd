"""
All models on one data set
==========================

Every model takes the same data, so that they can be compared by changing a name. :func:`~kernelkin.all_models` lists
them; which one is for what is in :doc:`/models`. No parameter is tuned here: use :class:`~kernelkin.MultiTaskCV` (or
:class:`~kernelkin.MKMTRLClassifierCV`) for that, or :class:`~kernelkin.KinRegressor` and
:class:`~kernelkin.KinClassifier`, which need no tuning.
"""

# %%
# Six tasks on the same rows, whose functions are alike: first numbers, then classes.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay

import kernelkin as kk
from kernelkin.plots import TaskScoresDisplay

rng = np.random.default_rng(0)
X, X_test = rng.normal(size=(40, 4)), rng.normal(size=(300, 4))
mix = 1 + 0.3 * rng.normal(size=(2, 6))


def truth(X):
    """The functions of the six tasks, (n, 6)."""
    return np.sin(2 * X[:, :1]) * mix[0] + X[:, 1:2] * mix[1]


Y, Y_test = truth(X) + 0.4 * rng.normal(size=(40, 6)), truth(X_test) + 0.4 * rng.normal(size=(300, 6))

# %%
# Regression
# ----------

regressors = {
    "mean": kk.paper.MeanRegressor(),
    "OLS": kk.paper.OLSRegressor(),
    "lasso": kk.paper.LassoRegressor(),
    "FES": kk.paper.FESRegressor(),
    "MRCE": kk.paper.MRCERegressor(),
    "STL": kk.STLRegressor(),
    "AVG": kk.AverageRegressor(),
    "IMKL": kk.IMKLRegressor(),
    "IKL": kk.paper.IKLRegressor(),
    "MK-MTFL": kk.paper.MKMTFLRegressor(),
    "MTFL": kk.paper.MTFLRegressor(),
    "MTRL": kk.paper.MTRLRegressor(),
    "two-stage": kk.TwoStageMKMTRLRegressor(n_rounds=5000, random_state=0),
    "MK-MTRL": kk.MKMTRLRegressor(),
    "MK-MTRL, common part": kk.MKMTRLRegressor(couplings="common"),
}
scores = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # some stop before they are exact
    for name, model in regressors.items():
        scores[name] = list(model.fit(X, Y).score_tasks(X_test, Y_test).values())
order = sorted(scores, key=lambda name: -np.mean(scores[name]))
for name in order:
    print(f"{name:20} mean R\u00b2 {np.mean(scores[name]):6.3f}")

# %%
# Task by task, the best three:

TaskScoresDisplay({name: scores[name] for name in order[:3]}, [f"task {t + 1}" for t in range(6)]).plot()
plt.show()

# %%
# Classification
# --------------

classifiers = {
    "STL": kk.STLClassifier(),
    "AVG": kk.AverageClassifier(),
    "IMKL": kk.IMKLClassifier(),
    "IKL": kk.paper.IKLClassifier(),
    "MK-MTFL": kk.paper.MKMTFLClassifier(),
    "MKL-SA": kk.paper.MKLSAClassifier(random_state=0),
    "MTFL": kk.paper.MTFLClassifier(),
    "MTRL": kk.paper.MTRLClassifier(),
    "two-stage": kk.TwoStageMKMTRLClassifier(n_rounds=5000, random_state=0),
    "MK-MTRL": kk.MKMTRLClassifier(),
    "MK-MTRL, common part": kk.MKMTRLClassifier(couplings="common"),
}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for name, model in classifiers.items():
        print(f"{name:20} mean accuracy {model.fit(X, Y > 0).score(X_test, Y_test > 0):.3f}")

# %%
# All have probabilities. Where the line follows the diagonal, of the rows with a probability of 70% about 70% are of
# that class.

probabilities = classifiers["MK-MTRL, common part"].predict_proba(X_test)
CalibrationDisplay.from_predictions((Y_test > 0).ravel(), probabilities.ravel(), n_bins=10, strategy="quantile")
plt.show()

# %%
# On real data
# ------------
# How the models compare on the data sets of the paper is in :doc:`/results` and :doc:`/comparison`; the loaders are in
# ``experiments/data_sets.py`` of the repository. A fit that would not fit into memory is refused with a
# :class:`~kernelkin.exceptions.GramMemoryError` before it starts. Kin can be fitted on a Dask cluster; a cluster that
# cannot do the work ends the fit with a :class:`~kernelkin.exceptions.ClusterError`.
