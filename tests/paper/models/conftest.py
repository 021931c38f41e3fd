"""Models of every loss, for the tests of the main estimators."""

import pytest
from models.problems import MODELS
from sklearn.base import clone


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])
