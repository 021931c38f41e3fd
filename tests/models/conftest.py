"""Models of every loss, for the tests of the main estimators."""

import pytest
from sklearn.base import clone

from models.problems import MODELS


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])
