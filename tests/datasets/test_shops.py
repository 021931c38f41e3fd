import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelkin.datasets import make_shops


def test_rows_and_names():
    data = make_shops(4, 6, test_size=3, random_state=0)
    assert data.data.shape == (24, 7) and data.data_test.shape == (12, 7)
    assert np.unique(data.tasks, return_counts=True)[1].tolist() == [6] * 4
    assert data.task_names.tolist() == ["shop01", "shop02", "shop03", "shop04"]
    assert len(data.feature_names) == 7 and data.DESCR


def test_the_tuple_holds_the_same_draw():
    data = make_shops(3, 5, random_state=1)
    X, y, tasks = make_shops(3, 5, random_state=1, return_X_y=True)
    assert np.array_equal(X, data.data) and np.array_equal(y, data.target) and np.array_equal(tasks, data.tasks)


def test_sales_are_the_functions_plus_noise_of_the_given_size():
    data = make_shops(5, 2000, noise=0.3, random_state=0)
    shop = np.searchsorted(data.task_names, data.tasks)
    expected = data.functions(data.data)[np.arange(len(shop)), shop]
    for s in range(5):
        # Functions have standard deviation 20 in a shop of size one, and noise 0.3 of that.
        assert_allclose(np.std((data.target - expected)[shop == s]), 6 * data.functions.size[s], rtol=0.1)


def test_likeness_is_how_much_shops_have_in_common():
    for likeness, low, high in [(1.0, 0.999, 1.0), (0.0, -0.5, 0.5)]:
        data = make_shops(10, 200, likeness=likeness, random_state=0)
        correlation = np.corrcoef(data.functions(data.data), rowvar=False)
        assert low <= np.median(correlation[np.triu_indices(10, 1)]) <= high + 1e-12


def test_four_columns_are_irrelevant():
    data = make_shops(3, 50, random_state=0)
    changed = data.data.copy()
    changed[:, 3:] = np.random.default_rng(0).normal(size=changed[:, 3:].shape)
    assert np.array_equal(data.functions(changed), data.functions(data.data))
    changed = data.data.copy()
    changed[:, 2] += 0.5
    assert not np.allclose(data.functions(changed), data.functions(data.data))


def test_numbers_of_rows_are_checked():
    for wrong in [{"n_shops": 0}, {"n_days": 0}, {"test_size": -1}]:
        with pytest.raises(ValueError, match="n_shops and n_days must be positive, and test_size not negative"):
            make_shops(**wrong)


def test_shares_are_checked():
    for wrong in [{"likeness": 1.5}, {"noise": -1.0}, {"noise": float("nan")}]:
        with pytest.raises(ValueError, match="likeness must be between 0 and 1 and noise not negative"):
            make_shops(**wrong)
