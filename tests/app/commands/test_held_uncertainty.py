import numpy as np

from kernelkin import load_model


def test_coverage_and_points_are_in_the_units_of_the_table(folder, sales):
    found = load_model(folder / "number.skops").about["evaluation"]["uncertainty"]
    predicted, low, high, actual = np.array(found["points"]).T
    assert set(actual.round(2)) <= set(sales.sales)
    assert ((low < predicted) & (predicted < high)).all()
    inside = (low <= actual) & (actual <= high)
    assert sum(found["covered"]) == inside.sum()
    assert sum(found["rows"]) == len(actual)


def test_bins_have_the_frequency_of_the_second_class(folder, sales):
    found = load_model(folder / "class.skops").about["evaluation"]["uncertainty"]
    predicted, happened, count = np.array(found["bins"]).T
    assert found["label"] == "yes"
    assert (np.diff(predicted) >= 0).all()
    assert count.sum() == load_model(folder / "class.skops").about["evaluation"]["test_rows"]
    # Stratified: half of the held-out rows are of each class.
    np.testing.assert_allclose(happened @ count / count.sum(), 0.5, atol=0.1)
