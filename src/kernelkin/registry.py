"""The list of models that tests, docs, experiments and the command line go by."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import kin
from .paper import models as paper

_MURUGESAN = "Murugesan and Carbonell, Multi-Task Multiple Kernel Relationship Learning, SDM 2017"
_ROTHMAN = "Rothman, Levina and Zhu, Sparse Multivariate Regression With Covariance Estimation, JCGS 2010"


class Model(NamedTuple):
    """One model.

    Attributes
    ----------
    name : what tables and the command line call it.
    description : what it does, in a line.
    reference : who proposed it, and where.
    classifier, regressor : its estimator classes; None where it is not defined.
    aliases : other names the paper and its sources use.
    needs_wide : whether it needs all tasks on the same rows, without missing labels.
    """

    name: str
    description: str
    reference: str
    classifier: type | None
    regressor: type | None
    aliases: tuple[str, ...] = ()
    needs_wide: bool = False

    @property
    def estimators(self) -> tuple[type, ...]:
        """The estimator classes it has."""
        return tuple(estimator for estimator in (self.classifier, self.regressor) if estimator is not None)


_MODELS = (
    Model(
        "Kin",
        "mixed kernel models: levels, slopes and smooth functions of groups, partially pooled; nothing to set",
        "this library",
        kin.KinClassifier,
        kin.KinRegressor,
        ("KinRegressor", "KinClassifier"),
    ),
    Model(
        "MK-MTRL",
        "kernel weights of all tasks tied by a task relationship that is learned with them",
        _MURUGESAN,
        paper.MKMTRLClassifier,
        paper.MKMTRLRegressor,
        ("MKMTRL",),
    ),
    Model(
        "Two-stage MK-MTRL",
        "the same kernel weights learned online from pairs of rows, then one machine per task",
        _MURUGESAN,
        paper.TwoStageMKMTRLClassifier,
        paper.TwoStageMKMTRLRegressor,
        ("TS-MK-MTRL", "two-stage, online MK-MTRL"),
    ),
    Model(
        "STL",
        "one machine per task on one kernel: nothing shared, nothing learned about kernels",
        _MURUGESAN,
        paper.STLClassifier,
        paper.STLRegressor,
        ("single-task learning", "SVM", "KRR"),
    ),
    Model(
        "AVG",
        "one machine per task on the average of the kernels",
        _MURUGESAN,
        paper.AverageClassifier,
        paper.AverageRegressor,
        ("Average", "average kernel"),
    ),
    Model(
        "IMKL",
        "kernel weights learned in each task on its own, with a p-norm",
        "Kloft, Brefeld, Sonnenburg and Zien, Lp-Norm Multiple Kernel Learning, JMLR 2011",
        paper.IMKLClassifier,
        paper.IMKLRegressor,
        ("MKL", "independent multiple kernel learning"),
    ),
    Model(
        "IKL",
        "one vector of kernel weights learned for all tasks together",
        "Tang, Chen and Ye, On Multiple Kernel Learning with Multiple Labels, IJCAI 2009",
        paper.IKLClassifier,
        paper.IKLRegressor,
        ("input kernel learning",),
    ),
    Model(
        "MK-MTFL",
        "all tasks select the same few kernels, and use them to different degrees",
        "Jawanpuria and Nath, Multi-task Multiple Kernel Learning, SDM 2011",
        paper.MKMTFLClassifier,
        paper.MKMTFLRegressor,
        ("MKMTFL",),
    ),
    Model(
        "MKL-SA",
        "one kernel mix that is best for the worst task, learned one task at a time",
        "Bucak, Jin and Jain, Multi-label Multiple Kernel Learning by Stochastic Approximation, NIPS 2010",
        paper.MKLSAClassifier,
        None,
        ("MKLSA",),
    ),
    Model(
        "MTFL",
        "functions of all tasks from few features of one kernel that they share",
        "Argyriou, Evgeniou and Pontil, Convex Multi-Task Feature Learning, Machine Learning 2008",
        paper.MTFLClassifier,
        paper.MTFLRegressor,
        ("multi-task feature learning",),
    ),
    Model(
        "MTRL",
        "functions of all tasks on one kernel, with a task covariance that is learned",
        "Zhang and Yeung, A Regularization Approach to Learning Task Relationships in Multitask Learning, TKDD 2014",
        paper.MTRLClassifier,
        paper.MTRLRegressor,
        ("multi-task relationship learning",),
    ),
    Model(
        "MRCE",
        "sparse linear regression of all tasks with a sparse inverse covariance of their errors",
        _ROTHMAN,
        None,
        paper.MRCERegressor,
        needs_wide=True,
    ),
    Model(
        "FES",
        "linear regression of all tasks through few factors",
        "Yuan, Ekici, Lu and Monteiro, Dimension Reduction and Coefficient Estimation in Multivariate Linear "
        "Regression, JRSS B 2007",
        None,
        paper.FESRegressor,
        ("factor estimation and selection",),
        needs_wide=True,
    ),
    Model(
        "Lasso",
        "sparse linear regression in each task",
        "Tibshirani, Regression Shrinkage and Selection via the Lasso, JRSS B 1996",
        None,
        paper.LassoRegressor,
    ),
    Model("OLS", "linear least squares in each task", "scikit-learn, LinearRegression", None, paper.OLSRegressor),
    Model(
        "Mean",
        "the training mean of each task: no skill",
        "scikit-learn, DummyRegressor",
        None,
        paper.MeanRegressor,
    ),
)


def all_models() -> tuple[Model, ...]:
    """Every model of the library: its name, description, reference, and classifier and regressor classes.

    Examples
    --------
    >>> import kernelkin
    >>> [model.name for model in kernelkin.all_models() if model.classifier is None]
    ['MRCE', 'FES', 'Lasso', 'OLS', 'Mean']
    """
    return _MODELS


def find_model(name: str) -> Model:
    """The model of this name or alias, whatever its case."""
    known: dict[str, Any] = {key.lower(): model for model in _MODELS for key in (model.name, *model.aliases)}
    if name.lower() not in known:
        raise ValueError(f"no model is named {name!r}; there are {', '.join(model.name for model in _MODELS)}")
    return known[name.lower()]
