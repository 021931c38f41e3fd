"""scikit-learn's own checks of estimators, all of them, for both Kin estimators."""

import pytest

from kernelkin import KinClassifier, KinRegressor
from scikit_learn_checks import run_checks


@pytest.mark.filterwarnings("ignore:no tasks were given")
@pytest.mark.parametrize("model", [KinRegressor(cv=2, random_state=0), KinClassifier(cv=2, random_state=0)])
def test_every_check_passes(model):
    run_checks(model, {})
