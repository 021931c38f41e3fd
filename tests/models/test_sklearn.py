"""scikit-learn's own checks, for every loss of every estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelkin import MKMTRLClassifier, MKMTRLRegressor


@parametrize_with_checks(
    [
        MKMTRLClassifier(),
        MKMTRLClassifier(loss="squared"),
        MKMTRLRegressor(),
        MKMTRLRegressor(loss="epsilon_insensitive"),
        MKMTRLRegressor(solver="alternating"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
