import numpy as np
import pytest

from kernelkin.kernels.distances import inner_products, median_distance, mirror, squared_distances, weighted_median


def brute_median(X, repeats=None):
    X = X if repeats is None else np.repeat(X, repeats, axis=0)
    found = [np.linalg.norm(X[i] - X[j]) for i in range(len(X)) for j in range(i)]
    return np.median([distance for distance in found if distance > 0])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def brute_squares(X, Y):
    return ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)


@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_squared_distances(rng, d, offset):
    X, Y = rng.normal(size=(23, d)) + offset, rng.normal(size=(9, d)) + offset
    out = np.empty((23, 9))
    squared_distances(X, Y, out)
    # Without moving the origin, an offset of 1e6 would leave four digits.
    np.testing.assert_allclose(out, brute_squares(X, Y), rtol=1e-9, atol=1e-13)


def test_squared_distances_of_equal_rows_are_never_negative(rng):
    X = np.repeat(rng.normal(size=(40, 5)) * 1e3, 2, axis=0)
    out = np.empty((80, 80))
    squared_distances(X, X.copy(), out)
    assert out.min() >= 0
    squared_distances(X, None, out)
    assert out.min() >= 0 and (out.diagonal() == 0).all()
    np.testing.assert_array_equal(out, out.T)


def test_inner_products(rng):
    X, Y = rng.normal(size=(8, 3)), rng.normal(size=(5, 3))
    out = np.empty((8, 5))
    inner_products(X, Y, out)
    np.testing.assert_allclose(out, [[sum(x * y) for y in Y] for x in X], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("n", [1, 6, 7, 20])
def test_mirror_copies_the_upper_triangle(rng, n):
    G = rng.normal(size=(n, n))
    upper = np.triu(G)
    mirror(G, block=6)
    np.testing.assert_array_equal(G, upper + np.triu(upper, 1).T)


def test_weighted_median_is_the_median_of_repeated_values(rng):
    for n in (1, 2, 5, 6):
        values, weight = rng.normal(size=n), rng.integers(1, 4, size=n)
        expected = np.median(np.repeat(values, weight))
        assert weighted_median(values, weight.astype(float)) == pytest.approx(expected, rel=1e-15)


def test_median_distance_is_that_of_all_pairs_apart(rng):
    X = rng.integers(0, 3, size=(25, 2)).astype(float)
    assert median_distance(X) == pytest.approx(brute_median(X), rel=1e-14)
    assert median_distance(X.astype(np.float32)) == pytest.approx(brute_median(X), rel=1e-14)
    weight = rng.integers(0, 4, size=25)
    assert median_distance(X, weight) == pytest.approx(brute_median(X, weight), rel=1e-14)


def test_median_distance_without_any_distance():
    assert median_distance(np.ones((5, 2))) == 1.0
    assert median_distance(np.ones((1, 2))) == 1.0
    assert median_distance(np.array([[0.0], [3.0]]), np.array([1.0, 0.0])) == 1.0


def test_median_distance_of_many_rows_looks_at_every_third(rng):
    X = rng.normal(size=(2500, 2))
    assert median_distance(X) == median_distance(X[::3])
    assert median_distance(X[:1000]) != median_distance(X[:1000:2])
