import matplotlib
import matplotlib.pyplot as plt
import pytest

from kernelkin import MKMTRLRegressor
from kernelkin.datasets import make_related_tasks

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="package")
def data():
    return make_related_tasks(6, 2, 4, n_samples=20, test_size=10, random_state=0)


@pytest.fixture(scope="package")
def model(data):
    """Six tasks in two groups that use different kernels."""
    return MKMTRLRegressor(data.kernels, C=10.0, min_rank=2.0).fit(data.data, data.target, tasks=data.tasks)
