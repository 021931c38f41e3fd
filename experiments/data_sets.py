"""The real data sets of the paper's experiments, as scikit-learn bunches."""

from __future__ import annotations

import os
from inspect import getdoc
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from .data_files import LANDMINE, MFEAT, SARCOS, SCHOOL, SCHOOL_SPLITS, STOCK, RemoteFile, fetch

DataHome = str | os.PathLike[str] | None

STOCKS = ["Walmart", "Exxon", "GM", "Ford", "GE", "ConocoPhillips", "Citigroup", "IBM", "AIG"]

#: Numbers of the fields, from 1. Papers disagree on which 19 of the 29 they use.
LANDMINE_TASKS = {"usual": [*range(1, 11), *range(16, 25)], "literal": [*range(1, 20)], "all": [*range(1, 30)]}
LANDMINE_FEATURES = [
    *(f"moment{i}" for i in range(1, 5)),
    *(f"correlation{i}" for i in range(1, 4)),
    "energy_ratio",
    "spatial_variance",
]
LAST_FOLIATED_FIELD = 15

ETHNIC_GROUPS = [
    "ESWI",  # born in England, Scotland, Wales or Ireland
    *("African", "Arab", "Bangladeshi", "Caribbean", "Greek"),
    *("Indian", "Pakistani", "SE_Asian", "Turkish", "other"),
]
SCHOOL_FEATURES = [
    *(f"year={year}" for year in (1985, 1986, 1987)),
    "free_meals_percent",
    "vr1_percent",
    *(f"gender={value}" for value in ("male", "female")),
    *(f"vr_band={band}" for band in (3, 1, 2)),  # the file codes VR3, VR1, VR2 as 1, 2, 3
    *(f"ethnic_group={group}" for group in ETHNIC_GROUPS),
    *(f"school_gender={value}" for value in ("mixed", "male", "female")),
    *(f"denomination={value}" for value in ("maintained", "Church_of_England", "Roman_Catholic")),
]


def load_stock(*, data_home: DataHome = None) -> Bunch:
    """Load the weekly log returns of nine stocks in 2004: nine regression tasks on the same rows.

    Weekly log returns of nine large companies in 2004. Each task predicts the return of one company from the
    returns of all nine in the week before. The 25 weeks of the first half of the year are for training, the 25 of the
    second half for testing. The returns are hardly predictable: the mean of the training weeks is hard to beat.

    Parameters
    ----------
    data_home : path, optional
        Folder with the files; by default the one that KERNELKIN_DATA names. Missing files are downloaded into a cache.

    Returns
    -------
    Bunch
        ``data`` (25, 9) the returns of one week, ``target`` (25, 9) those of the next; ``data_test``, ``target_test``
        the same for the second half of the year; ``feature_names``, ``target_names``, ``DESCR``.

    References
    ----------
    A. J. Rothman, E. Levina, J. Zhu. Sparse multivariate regression with covariance estimation. Journal of
    Computational and Graphical Statistics 19(4), 947-962, 2010. Split as published with K. Murugesan, J.
    Carbonell. Multi-task multiple kernel relationship learning. SIAM Data Mining, 2017.
    """
    mat = _read_mat(STOCK, data_home)
    X, y, X_test, y_test = (np.ascontiguousarray(mat[key]) for key in ("X", "Y", "Xt", "Yt"))
    return _bunch((X, y), (X_test, y_test), feature_names=STOCKS, target_names=list(STOCKS), DESCR=getdoc(load_stock))


def load_landmine(tasks: str = "usual", *, data_home: DataHome = None) -> Bunch:
    """Load the landmine fields: one binary task for each field, 6% of the rows positive.

    Landmine or clutter from nine features of radar images, in 29 fields: four moments, three correlations, an
    energy ratio and a spatial variance. (The file has no names; these are in the order in which the papers list
    them.) Fields 1 to 15 are foliated, 16 to 29 are bare earth or desert. About 6% of the rows are mines.

    Parameters
    ----------
    tasks : {"usual", "literal", "all"}, default="usual"
        Which of the 29 fields to load, counted from 1: "usual" is 1-10 and 16-24, the choice of most papers; "literal"
        is 1-19, as worded in the MK-MTRL paper and markedly easier; "all" is 1-29.
    data_home : path, optional
        Folder with the files; by default the one that KERNELKIN_DATA names. Missing files are downloaded into a cache.

    Returns
    -------
    Bunch
        ``data`` (n, 9), ``target`` (n,) in {0, 1} with 1 a mine, ``tasks`` (n,) labels "field01" and on;
        ``task_names`` (T,), ``groups`` (T,) "foliated" or "desert",
        ``feature_names``, ``target_names``, ``DESCR``.

    References
    ----------
    Y. Xue, X. Liao, L. Carin, B. Krishnapuram. Multi-task learning for classification with Dirichlet process
    priors. Journal of Machine Learning Research 8, 35-63, 2007.
    """
    if tasks not in LANDMINE_TASKS:
        raise ValueError(f"tasks must be one of {sorted(LANDMINE_TASKS)}, got {tasks!r}")
    mat = _read_mat(LANDMINE, data_home)
    fields = LANDMINE_TASKS[tasks]
    X = [mat["X"][0, field - 1] for field in fields]
    y = [mat["Y"][0, field - 1].ravel() for field in fields]
    names = np.array([f"field{field:02d}" for field in fields])
    labels = np.repeat(names, [len(rows) for rows in X])
    return _bunch(
        (np.ascontiguousarray(np.concatenate(X)), np.concatenate(y).astype(np.int64), labels),
        feature_names=LANDMINE_FEATURES,
        target_names=["clutter", "mine"],
        task_names=names,
        groups=np.where(np.array(fields) <= LAST_FOLIATED_FIELD, "foliated", "desert"),
        DESCR=getdoc(load_landmine),
    )


def load_sarcos(*, data_home: DataHome = None) -> Bunch:
    """Load the SARCOS robot arm (its test file): seven regression tasks on the same rows.

    Inverse dynamics of a SARCOS arm with seven degrees of freedom: seven joint positions, velocities and
    accelerations predict seven joint torques. These are the 4,449 rows of the test file, on the raw scale.

    Parameters
    ----------
    data_home : path, optional
        Folder with the files; by default the one that KERNELKIN_DATA names. Missing files are downloaded into a cache.

    Returns
    -------
    Bunch
        ``data`` (4449, 21), ``target`` (4449, 7), both unscaled; ``feature_names``, ``target_names``, ``DESCR``.

    References
    ----------
    S. Vijayakumar, A. D'Souza, S. Schaal. Incremental online learning in high dimensions. Neural Computation
    17(12), 2602-2634, 2005. Data: C. E. Rasmussen, C. K. I. Williams. Gaussian processes for machine learning.
    MIT Press, 2006.
    """
    table = _read_mat(SARCOS, data_home)["sarcos_inv_test"]
    joints = range(1, 8)
    torques = [f"torque{joint}" for joint in joints]
    return _bunch(
        (np.ascontiguousarray(table[:, :21]), np.ascontiguousarray(table[:, 21:])),
        feature_names=[f"{what}{joint}" for what in ("position", "velocity", "acceleration") for joint in joints],
        target_names=torques,
        DESCR=getdoc(load_sarcos),
    )


def load_school(split: int | None = None, *, data_home: DataHome = None) -> Bunch:
    """Load the exam scores of the pupils of 139 London schools: one regression task for each school.

    Exam scores of 15,362 pupils of 139 schools of the Inner London Education Authority, 1985 to 1987. The year, the
    gender, verbal reasoning band and ethnic group of the pupil, and the gender and denomination of the school are
    one-hot encoded; the two percentages describe the school. The column of ones in the file is left out. Each of the
    ten splits uses three quarters of each school's pupils for training.

    Parameters
    ----------
    split : int from 1 to 10, optional
        Which of the ten published 75/25 splits to use; by default all rows without a split.
    data_home : path, optional
        Folder with the files; by default the one that KERNELKIN_DATA names. Missing files are downloaded into a cache.

    Returns
    -------
    Bunch
        ``data`` (15362, 27) without the file's column of ones, ``target`` (15362,), ``tasks`` (15362,) labels
        "school001" and on; with a split these are its training rows, and ``data_test``, ``target_test``, ``tasks_test``
        its test rows. ``task_names`` (139,), ``feature_names``, ``DESCR``.

    References
    ----------
    H. Goldstein. Multilevel modelling of survey data. The Statistician 40, 235-244, 1991. Splits: A.
    Argyriou, T. Evgeniou, M. Pontil. Convex multi-task feature learning. Machine Learning 73(3), 243-272, 2008.
    """
    if split is not None and split not in SCHOOL_SPLITS:
        raise ValueError(f"split must be None or a number from 1 to 10, got {split!r}")
    mat = _read_mat(SCHOOL, data_home)
    # The file has unsigned bytes, whose differences wrap around.
    X, y = mat["x"].T[:, : len(SCHOOL_FEATURES)].astype(np.float64), mat["y"].ravel().astype(np.float64)
    starts = mat["task_indexes"].ravel().astype(np.intp) - 1
    names = np.array([f"school{i:03d}" for i in range(1, len(starts) + 1)])
    parts = [(np.ascontiguousarray(X), y, np.repeat(names, np.diff([*starts, len(y)])))]
    if split is not None:
        numbers = _read_mat(SCHOOL_SPLITS[split], data_home)
        # Row numbers start at 1; cast first, because the unsigned numbers of the file would wrap around.
        rows = [numbers[part].ravel().astype(np.intp) - 1 for part in ("tr", "tst")]
        parts = [tuple(values[part] for values in parts[0]) for part in rows]
    return _bunch(*parts, feature_names=SCHOOL_FEATURES, task_names=names, DESCR=getdoc(load_school))


def load_mfeat(*, data_home: DataHome = None) -> Bunch:
    """Load the multiple-features digits: 2,000 digits in six views.

    2,000 handwritten digits from Dutch utility maps, 200 of each, in six views: 76 Fourier coefficients (fou), 216
    profile correlations (fac), 64 Karhunen-Loeve coefficients (kar), 240 pixel averages (pix), 47 Zernike moments
    (zer) and 6 morphological features (mor). Ten one-vs-rest tasks on the same rows.

    Parameters
    ----------
    data_home : path, optional
        Folder with the files; by default the one that KERNELKIN_DATA names. Missing files are downloaded into a cache.

    Returns
    -------
    Bunch
        ``data`` (2000, 649) the views side by side, ``target`` (2000,) the digits; ``views`` the columns (a slice)
        of each view by name, for `kernelkin.view_kernels`; ``feature_names``, ``target_names``, ``DESCR``.

    References
    ----------
    M. van Breukelen, R. P. W. Duin, D. M. J. Tax, J. E. den Hartog. Handwritten digit recognition by
    combined classifiers. Kybernetika 34(4), 381-386, 1998.
    """
    tables = {view: np.loadtxt(fetch(file, data_home), delimiter=",", skiprows=1) for view, file in MFEAT.items()}
    widths = [table.shape[1] - 1 for table in tables.values()]  # the last column is the class
    ends = np.cumsum(widths).tolist()
    return _bunch(
        (np.hstack([table[:, :-1] for table in tables.values()]), tables["fou"][:, -1].astype(np.int64)),
        feature_names=[f"{view}{i:03d}" for view, width in zip(tables, widths, strict=True) for i in range(width)],
        views={view: slice(end - width, end) for view, width, end in zip(tables, widths, ends, strict=True)},
        target_names=[str(digit) for digit in range(10)],
        DESCR=getdoc(load_mfeat),
    )


def _read_mat(file: RemoteFile, data_home: DataHome) -> dict[str, Any]:
    from scipy.io import loadmat

    return loadmat(fetch(file, data_home))


def _bunch(*parts: tuple[Any, ...], **entries: Any) -> Bunch:
    """Return a Bunch of all rows, or of training and test rows: features, targets and, on long data, tasks."""
    named = {
        name + suffix: values
        for part, suffix in zip(parts, ("", "_test"), strict=False)
        for name, values in zip(("data", "target", "tasks"), part, strict=False)
    }
    return Bunch(**named, **entries)
