"""The list of models, used by tests, docs, experiments and the command line."""

from __future__ import annotations

from typing import NamedTuple

from . import kin
from .paper import models as paper


class RegisteredModel(NamedTuple):
    """One model."""

    name: str  # name in tables and on the command line
    prefix: str  # prefix of the names of its estimators
    description: str  # description in one line
    reference: str  # the publication that proposed it
    needs_wide: bool = False  # whether all tasks must have the same rows, without missing labels

    @property
    def classifier(self) -> type | None:
        """The classifier; None if the model has none."""
        return getattr(paper, f"{self.prefix}Classifier", getattr(kin, f"{self.prefix}Classifier", None))

    @property
    def regressor(self) -> type | None:
        """The regressor; every model has one but MKL-SA."""
        return getattr(paper, f"{self.prefix}Regressor", getattr(kin, f"{self.prefix}Regressor", None))

    @property
    def estimators(self) -> tuple[type, ...]:
        """The estimator classes of the model."""
        return tuple(estimator for estimator in (self.classifier, self.regressor) if estimator is not None)


_MURUGESAN = "Murugesan and Carbonell, Multi-Task Multiple Kernel Relationship Learning, SDM 2017"
# Each with its name, the prefix of its estimators, a description and a reference.
_MODELS = tuple(
    RegisteredModel(*each, needs_wide=each[0] in ("MRCE", "FES"))
    for each in [
        ("Kin", "Kin", "mixed kernel models: partially pooled intercepts, slopes and smooth functions of groups; no "
         "tuning needed", "this library"),
        ("MK-MTRL", "MKMTRL", "kernel weights of all tasks, related by a task relationship that is learned with them",
         _MURUGESAN),
        ("Two-stage MK-MTRL", "TwoStageMKMTRL", "kernel weights as in MK-MTRL, learned online from pairs of rows, then "
         "one machine per task", _MURUGESAN),
        ("STL", "STL", "one machine per task on one kernel, without sharing or kernel learning", _MURUGESAN),
        ("AVG", "Average", "one machine per task on the average of the kernels", _MURUGESAN),
        ("IMKL", "IMKL", "kernel weights learned separately for each task, with a p-norm penalty",
         "Kloft, Brefeld, Sonnenburg and Zien, Lp-Norm Multiple Kernel Learning, JMLR 2011"),
        ("IKL", "IKL", "one vector of kernel weights learned for all tasks together",
         "Tang, Chen and Ye, On Multiple Kernel Learning with Multiple Labels, IJCAI 2009"),
        ("MK-MTFL", "MKMTFL", "all tasks select the same few kernels, and use them to different degrees",
         "Jawanpuria and Nath, Multi-task Multiple Kernel Learning, SDM 2011"),
        ("MKL-SA", "MKLSA", "one vector of kernel weights that is best for the worst task, learned one task at a time",
         "Bucak, Jin and Jain, Multi-label Multiple Kernel Learning by Stochastic Approximation, NIPS 2010"),
        ("MTFL", "MTFL", "functions of all tasks based on a few shared features of one kernel",
         "Argyriou, Evgeniou and Pontil, Convex Multi-Task Feature Learning, Machine Learning 2008"),
        ("MTRL", "MTRL", "functions of all tasks on one kernel, with a learned task covariance",
         "Zhang and Yeung, A Regularization Approach to Learning Task Relationships in Multitask Learning, TKDD 2014"),
        ("MRCE", "MRCE", "sparse multivariate linear regression with a sparse inverse covariance of the errors",
         "Rothman, Levina and Zhu, Sparse Multivariate Regression With Covariance Estimation, JCGS 2010"),
        ("FES", "FES", "multivariate linear regression with few factors", "Yuan, Ekici, Lu and Monteiro, Dimension "
         "Reduction and Coefficient Estimation in Multivariate Linear Regression, JRSS B 2007"),
        ("Lasso", "Lasso", "sparse linear regression for each task",
         "Tibshirani, Regression Shrinkage and Selection via the Lasso, JRSS B 1996"),
        ("OLS", "OLS", "linear least squares for each task", "scikit-learn, LinearRegression"),
        ("Mean", "Mean", "the training mean of each task, as a baseline", "scikit-learn, DummyRegressor"),
    ]
)  # fmt: skip


def all_models() -> tuple[RegisteredModel, ...]:
    """Return all models of the library, each with name, description, reference, classifier and regressor.

    Examples
    --------
    >>> import kernelkin
    >>> [model.name for model in kernelkin.all_models() if model.classifier is None]
    ['MRCE', 'FES', 'Lasso', 'OLS', 'Mean']
    """
    return _MODELS


def find_model(name: str) -> RegisteredModel:
    """Return the model with this name, or prefix of its estimators, ignoring case."""
    known = {key.lower(): model for model in _MODELS for key in (model.name, model.prefix)}
    if name.lower() not in known:
        raise ValueError(f"unknown model {name!r}; known models: {', '.join(model.name for model in _MODELS)}")
    return known[name.lower()]
