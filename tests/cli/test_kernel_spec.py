import pytest

from kernelkin.cli.training import read_kernels

POSITIONS = {"age": [0], "town": [1, 2], "a,b": [3]}


@pytest.mark.parametrize(
    ("items", "names"),
    [
        (["gaussian:0.5,2"], ["rbf(0.5 x median)", "rbf(2 x median)"]),
        (["polynomial:2", "linear"], ["poly2", "linear"]),
        (["laplacian@town"], ["town: laplacian"]),
        (["linear@age,town"], ["age,town: linear"]),
        (["linear@a,b"], ["a,b: linear"]),
        (["rbf:1@each"], ["age: rbf(1 x median)", "town: rbf(1 x median)", "a,b: rbf(1 x median)"]),
    ],
)
def test_specifications(items, names):
    assert [kernel.name for kernel in read_kernels(items, POSITIONS)] == names


def test_columns_become_the_positions_of_their_features():
    (kernel,) = read_kernels(["linear@age,town"], POSITIONS)
    assert list(kernel.columns) == [0, 1, 2]


def test_nothing_and_the_default():
    assert read_kernels(None, POSITIONS) is None
    assert len(read_kernels(["default"], POSITIONS)) == 6


@pytest.mark.parametrize(
    ("item", "error"),
    [
        ("gaussian:a", "'a' are not numbers"),
        ("linear:3", "only gaussian and polynomial take numbers"),
        ("linear@height", "no feature column is named 'height'; there are 'age', 'town', 'a,b'"),
        ("@age", "not of the form"),
        ("polynomial:1.5", "positive integer"),
        ("magic", "unknown kernel 'magic'"),
    ],
)
def test_errors_name_the_item(item, error):
    with pytest.raises(ValueError, match=error):
        read_kernels([item], POSITIONS)
