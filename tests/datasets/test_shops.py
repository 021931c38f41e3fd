import numpy as np
import pytest

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


def test_sales_vary_by_a_fifth_of_their_mean():
    sales = make_shops(200, 200, random_state=0).target.reshape(200, -1)
    # Over many shops, functions have variance one and noise has 0.09, in units of a fifth of the size of a shop.
    spread = np.sqrt(np.mean(sales.var(axis=1) / sales.mean(axis=1) ** 2))
    assert spread == pytest.approx(0.2 * np.sqrt(1.09), rel=0.05)


def test_shops_have_a_part_in_common_and_four_columns_are_irrelevant():
    data = make_shops(8, 500, random_state=0)
    sales = data.target.reshape(8, -1)
    sales = (sales - sales.mean(axis=1, keepdims=True)) / sales.std(axis=1, keepdims=True)
    correlation = np.array([np.corrcoef(sales.ravel(), column)[0, 1] for column in data.data.T])
    # 0.05 is three standard deviations of the correlation of 4,000 independent pairs.
    assert (np.abs(correlation[3:]) < 0.05).all()
    assert (np.abs(correlation[:3]) > 0.1).all()


def test_numbers_of_rows_are_checked():
    for wrong in [{"n_shops": 0}, {"n_days": 0}, {"test_size": -1}]:
        with pytest.raises(ValueError, match="n_shops and n_days must be positive, and test_size not negative"):
            make_shops(**wrong)
