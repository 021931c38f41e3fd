"""scikit-learn's checks of estimators, and of classifiers whose probabilities come from held-out values."""

from contextlib import suppress
from unittest import SkipTest

from sklearn.utils.estimator_checks import (
    check_classifier_multioutput,
    check_classifiers_train,
    check_sample_weight_equivalence_on_dense_data,
    estimator_checks_generator,
)

WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
# What the checks find of probabilities, and why.
PROBABILITIES = {
    WEIGHTS: "probabilities come from folds, in which the copies of a row are rows of their own",
    "check_classifiers_train": "near the boundary the class that is predicted may not be the most probable one",
    "check_classifier_multioutput": "as above",
}


def run_checks(model, left_out):
    """Run scikit-learn's checks but for those left out, which `check_estimator` would run and then forgive."""
    for estimator, check in estimator_checks_generator(model, expected_failed_checks=left_out, mark="skip"):
        with suppress(SkipTest):
            check(estimator)


def check_without_probabilities(model, *, weights):
    """Run the checks that probabilities fail, as for a classifier that has none."""

    class Hidden(type(model)):
        @property
        def predict_proba(self):
            raise AttributeError("hidden")

    hidden = Hidden(**model.get_params(deep=False))
    name = type(model).__name__
    check_classifier_multioutput(name, hidden)
    check_classifiers_train(name, hidden)
    if weights:
        check_sample_weight_equivalence_on_dense_data(name, hidden)
