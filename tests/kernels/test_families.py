import functools

import numpy as np
import pytest
from sklearn.metrics import pairwise

from kernelkin.kernels.families import (
    LinearKernel,
    default_kernels,
    gaussian_kernels,
    linear_kernels,
    polynomial_kernels,
    resolve_kernels,
    tanimoto_kernels,
    view_kernels,
)
from kernelkin.kernels.kernel import Kernel, evaluate, fit_kernels, median_distance


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(30, 4))


@pytest.fixture
def Y():
    return np.random.default_rng(1).normal(size=(11, 4))


def names(kernels):
    return [kernel.name for kernel in kernels]


def test_gaussian_formula(X, Y):
    absolute = fit_kernels(gaussian_kernels([0.5, 3.0], relative=False), X)
    for s, G in zip([0.5, 3.0], evaluate(absolute, X, Y), strict=True):
        brute = [[np.exp(-np.sum((x - y) ** 2) / (2 * s**2)) for y in Y] for x in X]
        np.testing.assert_allclose(G, brute, rtol=1e-12)
        np.testing.assert_allclose(G, pairwise.rbf_kernel(X, Y, gamma=0.5 / s**2), rtol=1e-12)


def test_relative_bandwidths_are_multiples_of_the_training_median(X, Y):
    s = median_distance(X)
    relative = fit_kernels(gaussian_kernels([0.5, 3.0]), X)
    absolute = fit_kernels(gaussian_kernels([0.5 * s, 3.0 * s], relative=False), X)
    np.testing.assert_array_equal(evaluate(relative, Y, X), evaluate(absolute, Y, X))
    assert [kernel.function.bandwidth for kernel in fit_kernels(gaussian_kernels(), X)] == [
        s * ratio for ratio in (0.25, 0.5, 1, 2, 4)
    ]


def test_each_feature_has_its_own_median(X):
    X = X * [1.0, 10.0, 100.0, 1000.0]
    fitted = fit_kernels(gaussian_kernels([1.0, 2.0], per_feature=True), X)
    assert [kernel.columns for kernel in fitted] == [(0,), (1,), (2,), (3,)] * 2
    for kernel, ratio in zip(fitted, [1.0] * 4 + [2.0] * 4, strict=True):
        assert kernel.function.bandwidth == ratio * median_distance(X[:, kernel.columns])


def test_polynomial_and_linear_formulas(X, Y):
    fitted = fit_kernels([*polynomial_kernels((1, 2, 5), coef0=0.7), *linear_kernels()], X)
    grams = evaluate(fitted, X, Y)
    for degree, G in zip((1, 2, 5), grams, strict=False):
        np.testing.assert_allclose(G, (X @ Y.T + 0.7) ** degree, rtol=1e-11, atol=1e-13)
        sklearns = pairwise.polynomial_kernel(X, Y, degree=degree, gamma=1.0, coef0=0.7)
        np.testing.assert_allclose(G, sklearns, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(grams[-1], pairwise.linear_kernel(X, Y), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", ["laplacian", "chi2", "cosine", "sigmoid"])
def test_names_of_scikit_learn(X, Y, name):
    X, Y = abs(X), abs(Y)
    (kernel,) = fit_kernels(resolve_kernels(name), X)
    expected = pairwise.pairwise_kernels(X, Y, metric=name)
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-13)
    assert kernel.function.known_psd == (name != "sigmoid")
    # Rows that joblib maps into memory cannot be written to.
    X.setflags(write=False)
    Y.setflags(write=False)
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-13)


def test_our_meaning_of_names():
    assert resolve_kernels(["rbf", "linear", "poly"]) == [
        *gaussian_kernels(1.0),
        *linear_kernels(),
        *polynomial_kernels(3),
    ]
    assert resolve_kernels("polynomial") == resolve_kernels("poly")


def test_readable_names(X):
    assert names(gaussian_kernels([0.5, 2])) == ["rbf(0.5 x median)", "rbf(2 x median)"]
    assert names(gaussian_kernels(2, relative=False, columns=[0, 2])) == ["rbf(bandwidth=2)[0, 2]"]
    assert names(polynomial_kernels((1, 3))) == ["poly1", "poly3"]
    assert names(polynomial_kernels(2, coef0=0, columns=slice(0, 3))) == ["poly2(coef0=0)[0:3]"]
    assert names(linear_kernels(columns="age")) == ["linear[age]"]
    assert names(linear_kernels(columns=range(12))) == ["linear[12 columns]"]
    assert names(view_kernels({"pixels": [0, 1]}, ["rbf", "linear"])) == ["pixels: rbf(1 x median)", "pixels: linear"]
    per_feature = linear_kernels(per_feature=True, columns=[1, 3])
    assert names(fit_kernels(per_feature, X)) == ["linear[1]", "linear[3]"]
    assert names(fit_kernels(per_feature, X, list("abcd"))) == ["linear[b]", "linear[d]"]
    partial = functools.partial(pairwise.laplacian_kernel, gamma=2.0)
    assert names(resolve_kernels([pairwise.laplacian_kernel, partial])) == ["laplacian_kernel", "laplacian_kernel (2)"]


def test_resolve_flattens_and_keeps_names_apart(X):
    kernels = resolve_kernels(["rbf", [gaussian_kernels(), ["linear"]], gaussian_kernels(1.0, per_feature=True)])
    assert len(kernels) == 8
    assert names(kernels)[:4] == ["rbf(1 x median)", "rbf(0.25 x median)", "rbf(0.5 x median)", "rbf(1 x median) (2)"]
    assert names(fit_kernels(kernels, X))[-1] == "rbf(1 x median)[3]"
    assert resolve_kernels() == resolve_kernels(None) == default_kernels()
    kernel = linear_kernels()[0]
    assert resolve_kernels(kernel) == [kernel]


@pytest.mark.parametrize(
    ("columns", "positions"),
    [
        ("c", [2]),
        (1, [1]),
        (-1, [3]),
        (np.int64(1), [1]),
        (["d", 0], [3, 0]),
        (slice(None, 2), [0, 1]),
        ([2, 0], [2, 0]),
    ],
)
def test_columns_by_name_and_position(X, Y, columns, positions):
    kernels = [*polynomial_kernels(2, columns=columns), *view_kernels({"v": columns})]
    poly, view = fit_kernels(kernels, X, list("abcd"))
    np.testing.assert_allclose(poly(X, Y), (X[:, positions] @ Y[:, positions].T + 1) ** 2, rtol=1e-12)
    (plain,) = fit_kernels(resolve_kernels("rbf"), X[:, positions])
    np.testing.assert_allclose(view(X, Y), plain(X[:, positions], Y[:, positions]), rtol=1e-12)


def test_views_take_every_kind_of_template(X):
    def mine(A, B):
        assert A.shape[1] == 2
        return A @ B.T

    views = {"left": ["a", "b"], "right": [2, 3]}
    kernels = view_kernels(views, [mine, linear_kernels(per_feature=True), "cosine"])
    fitted = fit_kernels(kernels, X, list("abcd"))
    assert names(fitted)[:4] == ["left: mine", "left: linear[a]", "left: linear[b]", "left: cosine"]
    np.testing.assert_allclose(fitted[4](X), X[:, 2:] @ X[:, 2:].T, rtol=1e-12)


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        (linear_kernels(columns="age"), r"'linear\[age\]': 'age' is not a column of X"),
        (gaussian_kernels(1, columns=[0, 9]), r"'rbf\(1 x median\)\[0, 9\]': column 9 is out of range, X has 4"),
        (view_kernels({"v": -5}), r"'v: rbf\(1 x median\)': column -5 is out of range"),
        (linear_kernels(columns=slice(7, 9)), r"'linear\[7:9\]': \[7:9\] selects none of the 4 columns"),
        ([*linear_kernels(), *linear_kernels()], "2 kernels are named 'linear'"),
    ],
)
def test_refusals_at_fit_name_the_kernel(X, kernels, message):
    with pytest.raises(ValueError, match=message):
        fit_kernels(kernels, X, ["a", "b", "c", "d"])


def test_a_name_needs_feature_names(X):
    with pytest.raises(ValueError, match=r"'linear\[age\]': 'age' is not a column of X, which has no column names"):
        linear_kernels(columns="age")[0].fit(X)


def test_a_per_feature_kernel_is_not_one_kernel(X):
    with pytest.raises(ValueError, match="'linear' has per_feature=True"):
        linear_kernels(per_feature=True)[0].fit(X)


def test_tanimoto_is_the_share_of_bits_that_both_have():
    bits = np.random.default_rng(0).uniform(size=(70, 12)) < 0.2
    bits[3] = bits[8] = False
    sets = [set(np.flatnonzero(row)) for row in bits]
    expected = np.array([[len(a & b) / len(a | b) if a | b else 1.0 for b in sets] for a in sets])
    plain, cubed = (kernel.fit(bits) for kernel in tanimoto_kernels((1, 3)))
    np.testing.assert_allclose(plain(bits), expected, rtol=1e-15)
    np.testing.assert_allclose(cubed(bits, bits[:5]), expected[:, :5] ** 3, rtol=1e-14)
    np.testing.assert_allclose(
        evaluate([plain], bits, at=(np.arange(70), np.full(70, 3)))[0], expected[:, 3], rtol=1e-15
    )


def test_tanimoto_of_any_numbers_is_positive_semi_definite():
    X = np.random.default_rng(1).standard_cauchy(size=(60, 3))
    gram = tanimoto_kernels()[0].fit(X)(X)
    assert gram.min() < 0 and np.linalg.eigvalsh(gram)[0] > -1e-12


def test_refusals_of_a_family():
    for build, message in [
        (lambda: gaussian_kernels([1.0, 0.0]), "positive and finite, got 0.0"),
        (lambda: gaussian_kernels(np.nan), "positive and finite, got nan"),
        (lambda: gaussian_kernels(relative=False), "relative=False needs bandwidths"),
        (lambda: polynomial_kernels([1.5]), "positive integer, got 1.5"),
        (lambda: polynomial_kernels(0), "positive integer, got 0"),
        (lambda: polynomial_kernels(2, coef0=-1), "not negative, got -1.0"),
        (lambda: tanimoto_kernels([1.5]), "^the power of a Tanimoto kernel must be a positive integer, got 1.5$"),
        (lambda: linear_kernels(columns=[]), "'linear': .* found none"),
        (lambda: linear_kernels(columns=[True, False]), "'linear': .* found True"),
        (lambda: linear_kernels(columns=slice("a", "c")), "'linear': .* found 'a'"),
        (lambda: Kernel("mine", LinearKernel(), columns=[0.5]), "'mine': .* found 0.5"),
        (lambda: view_kernels({}), "at least one group"),
        (lambda: view_kernels({"v": 0}, linear_kernels(columns=1)), r"'linear\[1\]' already has columns"),
        (lambda: resolve_kernels([]), "empty list"),
        (lambda: resolve_kernels("gauss"), "unknown kernel 'gauss'; known names: .*'laplacian'"),
    ]:
        with pytest.raises(ValueError, match=message):
            build()


def test_what_is_no_kernel_is_refused():
    with pytest.raises(TypeError, match=r"^a kernel must be a name, a Kernel or a callable .+; got 3$"):
        resolve_kernels(["rbf", 3])
