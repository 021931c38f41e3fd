"""The list of models, used by tests, docs, experiments and the command line."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import kin
from .paper import models as paper

_MURUGESAN = "Murugesan and Carbonell, Multi-Task Multiple Kernel Relationship Learning, SDM 2017"
_ROTHMAN = "Rothman, Levina and Zhu, Sparse Multivariate Regression With Covariance Estimation, JCGS 2010"
_KLOFT = "Kloft, Brefeld, Sonnenburg and Zien, Lp-Norm Multiple Kernel Learning, JMLR 2011"
_TANG = "Tang, Chen and Ye, On Multiple Kernel Learning with Multiple Labels, IJCAI 2009"
_JAWANPURIA = "Jawanpuria and Nath, Multi-task Multiple Kernel Learning, SDM 2011"
_BUCAK = "Bucak, Jin and Jain, Multi-label Multiple Kernel Learning by Stochastic Approximation, NIPS 2010"
_ARGYRIOU = "Argyriou, Evgeniou and Pontil, Convex Multi-Task Feature Learning, Machine Learning 2008"
_ZHANG = "Zhang and Yeung, A Regularization Approach to Learning Task Relationships in Multitask Learning, TKDD 2014"
_YUAN = (
    "Yuan, Ekici, Lu and Monteiro, Dimension Reduction and Coefficient Estimation in Multivariate Linear Regression, "
    "JRSS B 2007"
)
_TIBSHIRANI = "Tibshirani, Regression Shrinkage and Selection via the Lasso, JRSS B 1996"


class RegisteredModel(NamedTuple):
    """One model.

    Attributes
    ----------
    name : name in tables and on the command line.
    prefix : prefix of the names of its estimators.
    reference : the publication that proposed it.
    description : description in one line.
    aliases : other names, as in the paper and its references.
    needs_wide : whether all tasks must have the same rows, without missing labels.
    """

    name: str
    prefix: str
    reference: str
    description: str
    aliases: tuple[str, ...] = ()
    needs_wide: bool = False

    @property
    def classifier(self) -> type | None:
        """The classifier; None if the model has none."""
        return getattr(kin if self.prefix == "Kin" else paper, f"{self.prefix}Classifier", None)

    @property
    def regressor(self) -> type | None:
        """The regressor; None if the model has none."""
        return getattr(kin if self.prefix == "Kin" else paper, f"{self.prefix}Regressor", None)

    @property
    def estimators(self) -> tuple[type, ...]:
        """The estimator classes of the model."""
        return tuple(estimator for estimator in (self.classifier, self.regressor) if estimator is not None)


_SMOOTHS = "mixed kernel models: partially pooled intercepts, slopes and smooth functions of groups; no tuning needed"
_RELATED = "kernel weights of all tasks, related by a task relationship that is learned with them"
_ONLINE = "kernel weights as in MK-MTRL, learned online from pairs of rows, then one machine per task"
_ALONE = "one machine per task on one kernel, without sharing or kernel learning"
_EVEN = "one machine per task on the average of the kernels"
_SELECTED = "all tasks select the same few kernels, and use them to different degrees"
_WORST = "one vector of kernel weights that is best for the worst task, learned one task at a time"
_COVARIANCE = "sparse multivariate linear regression with a sparse inverse covariance of the errors"
_MODELS = (
    RegisteredModel("Kin", "Kin", "this library", _SMOOTHS, ("KinRegressor", "KinClassifier")),
    RegisteredModel("MK-MTRL", "MKMTRL", _MURUGESAN, _RELATED, ("MKMTRL",)),
    RegisteredModel(
        "Two-stage MK-MTRL", "TwoStageMKMTRL", _MURUGESAN, _ONLINE, ("TS-MK-MTRL", "two-stage, online MK-MTRL")
    ),
    RegisteredModel("STL", "STL", _MURUGESAN, _ALONE, ("single-task learning", "SVM", "KRR")),
    RegisteredModel("AVG", "Average", _MURUGESAN, _EVEN, ("Average", "average kernel")),
    RegisteredModel(
        "IMKL",
        "IMKL",
        _KLOFT,
        "kernel weights learned separately for each task, with a p-norm penalty",
        ("MKL", "independent multiple kernel learning"),
    ),
    RegisteredModel(
        "IKL", "IKL", _TANG, "one vector of kernel weights learned for all tasks together", ("input kernel learning",)
    ),
    RegisteredModel("MK-MTFL", "MKMTFL", _JAWANPURIA, _SELECTED, ("MKMTFL",)),
    RegisteredModel("MKL-SA", "MKLSA", _BUCAK, _WORST, ("MKLSA",)),
    RegisteredModel(
        "MTFL",
        "MTFL",
        _ARGYRIOU,
        "functions of all tasks based on a few shared features of one kernel",
        ("multi-task feature learning",),
    ),
    RegisteredModel(
        "MTRL",
        "MTRL",
        _ZHANG,
        "functions of all tasks on one kernel, with a learned task covariance",
        ("multi-task relationship learning",),
    ),
    RegisteredModel("MRCE", "MRCE", _ROTHMAN, _COVARIANCE, needs_wide=True),
    RegisteredModel(
        "FES",
        "FES",
        _YUAN,
        "multivariate linear regression with few factors",
        ("factor estimation and selection",),
        needs_wide=True,
    ),
    RegisteredModel("Lasso", "Lasso", _TIBSHIRANI, "sparse linear regression for each task"),
    RegisteredModel("OLS", "OLS", "scikit-learn, LinearRegression", "linear least squares for each task"),
    RegisteredModel("Mean", "Mean", "scikit-learn, DummyRegressor", "the training mean of each task, as a baseline"),
)


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
    """Return the model with this name or alias, ignoring case."""
    known: dict[str, Any] = {key.lower(): model for model in _MODELS for key in (model.name, *model.aliases)}
    if name.lower() not in known:
        raise ValueError(f"unknown model {name!r}; known models: {', '.join(model.name for model in _MODELS)}")
    return known[name.lower()]
