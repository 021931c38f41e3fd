"""What each data set is, and what to cite for it."""

from __future__ import annotations

from typing import Any

STOCK: dict[str, Any] = {
    "DESCR": (
        "Weekly log returns of nine large companies in 2004. Each task predicts the return of one company from the "
        "returns of all nine in the week before. 25 weeks of the first half of the year train, 25 of the second half "
        "test. There is very little to learn here: the mean of the training weeks is hard to beat."
    ),
    "citation": (
        "A. J. Rothman, E. Levina, J. Zhu. Sparse multivariate regression with covariance estimation. Journal of "
        "Computational and Graphical Statistics 19(4), 947-962, 2010. Split as published with K. Murugesan, "
        "J. Carbonell. Multi-task multiple kernel relationship learning. SIAM Data Mining, 2017."
    ),
}

LANDMINE: dict[str, Any] = {
    "DESCR": (
        "Landmine or clutter from nine features of radar images, in 29 fields: four moments, three correlations, an "
        "energy ratio and a spatial variance. (The file has no names; these are in the order in which the papers list "
        "them.) Fields 1 to 15 are foliated, 16 to 29 are bare earth or desert. About 6% of the rows are mines."
    ),
    "citation": (
        "Y. Xue, X. Liao, L. Carin, B. Krishnapuram. Multi-task learning for classification with Dirichlet process "
        "priors. Journal of Machine Learning Research 8, 35-63, 2007."
    ),
}

SARCOS: dict[str, Any] = {
    "DESCR": (
        "Inverse dynamics of a SARCOS arm with seven degrees of freedom: seven joint positions, velocities and "
        "accelerations predict seven joint torques. These are the 4,449 rows of the test file, on the raw scale."
    ),
    "citation": (
        "S. Vijayakumar, A. D'Souza, S. Schaal. Incremental online learning in high dimensions. Neural Computation "
        "17(12), 2602-2634, 2005. Data: C. E. Rasmussen, C. K. I. Williams. Gaussian processes for machine learning. "
        "MIT Press, 2006."
    ),
}

SCHOOL: dict[str, Any] = {
    "DESCR": (
        "Exam scores of 15,362 pupils of 139 schools of the Inner London Education Authority, 1985 to 1987. The year, "
        "the gender, verbal reasoning band and ethnic group of the pupil, and the gender and denomination of the "
        "school are one-hot; the two percentages describe the school. The column of ones of the file is left out. The "
        "ten splits hold three quarters of each school's pupils for training."
    ),
    "citation": (
        "H. Goldstein. Multilevel modelling of survey data. The Statistician 40, 235-244, 1991. Splits: A. Argyriou, "
        "T. Evgeniou, M. Pontil. Convex multi-task feature learning. Machine Learning 73(3), 243-272, 2008."
    ),
}

MFEAT: dict[str, Any] = {
    "DESCR": (
        "2,000 handwritten digits from Dutch utility maps, 200 of each, in six views: 76 Fourier coefficients (fou), "
        "216 profile correlations (fac), 64 Karhunen-Loeve coefficients (kar), 240 pixel averages (pix), 47 Zernike "
        "moments (zer) and 6 morphological features (mor). Ten one-vs-rest tasks on the same rows."
    ),
    "citation": (
        "M. van Breukelen, R. P. W. Duin, D. M. J. Tax, J. E. den Hartog. Handwritten digit recognition by combined "
        "classifiers. Kybernetika 34(4), 381-386, 1998."
    ),
}
