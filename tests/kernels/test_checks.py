"""What a Gram matrix must be, when it counts as positive semi-definite, and what is done about rounding."""

import numpy as np
import pytest

from kernelkin import MKMTRLRegressor, TwoStageMKMTRLRegressor
from kernelkin.kernels.families import polynomial_kernels, resolve_kernels
from kernelkin.kernels.grams import check_gram, check_precomputed, is_psd, nearest_psd, precomputed_names, project_stack
from kernelkin.kernels.kernel import evaluate, fit_kernels
from kernelkin.paper import MTRLRegressor


def spectrum(*eigenvalues, seed=0):
    """A symmetric matrix with these eigenvalues."""
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(eigenvalues),) * 2))[0]
    G = (basis * np.array(eigenvalues)) @ basis.T
    return (G + G.T) / 2


def smallest(G):
    return np.linalg.eigvalsh(G.astype(np.float64))[0]


def gaussian(X):
    """By differences of squares in the precision of X, as a GPU library computes it."""
    squares = (X**2).sum(axis=1)
    return np.exp(-0.5 * np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0))


def test_a_sound_gram_is_returned_as_it_is():
    for G in [np.eye(3), np.ones((4, 4)), np.array([[2, 1], [1, 2]])]:
        assert check_gram("g", G, known_psd=False) is G


def test_a_gram_of_low_rank_is_sound():
    A = np.random.default_rng(0).normal(size=(300, 5))
    G = A @ A.T
    assert check_gram("g", G, known_psd=False) is G


def test_an_indefinite_gram_is_refused_by_name_with_a_way_out():
    message = (
        r"^kernel 'g' is not positive semi-definite on the training rows: smallest eigenvalue -0\.01, mean of the "
        r"diagonal 0\.995\. Use another kernel, or clip its Gram matrix with kernelkin\.kernels\.nearest_psd\(G\) and "
        r"pass it with kernels='precomputed'$"
    )
    G = spectrum(*[1.33] * 3, -0.01)
    with pytest.raises(ValueError, match=message):
        check_gram("g", G, known_psd=False)
    assert check_gram("g", G, known_psd=True) is G


def test_a_gram_without_a_positive_diagonal_is_refused():
    for G in [-np.eye(3), np.array([[0.0, 1.0], [1.0, 0.0]])]:
        with pytest.raises(ValueError, match=r"smallest eigenvalue -1, mean of the diagonal"):
            check_gram("g", G, known_psd=False)


def test_all_rows_decide():
    """The pair of rows that no kernel can have is 1,103 and 1,104 of 1,200."""
    G = np.eye(1200)
    G[1103, 1104] = G[1104, 1103] = 1.5
    with pytest.raises(ValueError, match=r"smallest eigenvalue -0\.5, mean of the diagonal 1\."):
        check_gram("g", G, known_psd=False)


def test_the_tolerance_goes_by_the_precision_of_the_values():
    for dtype, relative, sound in [
        (np.float64, -1e-7, True),
        (np.float64, -1e-5, False),
        (np.float32, -2e-6, True),
        (np.float32, -1e-2, False),
    ]:
        G = spectrum(*[10 / 9] * 9, relative).astype(dtype)
        if not sound:
            with pytest.raises(ValueError, match=r"^kernel 'g' is not positive semi-definite on the training rows"):
                check_gram("g", G, known_psd=False)
            continue
        clipped = check_gram("g", G, known_psd=False)
        assert clipped.dtype == dtype
        assert smallest(G) < 0 and smallest(clipped) > -1e-14
        np.testing.assert_allclose(clipped, G, atol=2 * abs(relative))


def test_a_kernel_computed_in_single_precision_is_accepted_and_clipped():
    """In whatever type it is stored since."""
    for stored in [np.float32, np.float64]:
        X = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32) + 5
        G = gaussian(X)
        G = ((G + G.T) / 2).astype(stored)
        assert smallest(G) < -1e-5
        clipped = check_gram("g", G, known_psd=False)
        assert smallest(clipped) > -1e-12
        np.testing.assert_allclose(clipped, G, atol=1e-3)


def test_a_stack_is_clipped_in_place_and_zero_grams_are_not_modified():
    stack = np.stack([np.eye(4), spectrum(1.0, 1.0, 1.0, -1e-7), np.zeros((4, 4))])
    before = stack.copy()
    project_stack(["a", "b", "c"], stack)
    np.testing.assert_array_equal(stack[[0, 2]], before[[0, 2]])
    assert smallest(before[1]) < 0 and is_psd(stack[1])
    with pytest.raises(ValueError, match=r"^kernel 'b' is not positive semi-definite on the training rows"):
        project_stack(["a", "b"], np.stack([np.eye(4), -np.eye(4)]))


class TestNearest:
    def test_it_clips_eigenvalues(self):
        np.testing.assert_allclose(nearest_psd(spectrum(3.0, 1.0, -2.0)), spectrum(3.0, 1.0, 0.0), atol=1e-14)

    def test_no_other_semidefinite_matrix_is_nearer(self):
        rng = np.random.default_rng(0)
        G = rng.normal(size=(6, 6))
        G = G + G.T
        nearest = nearest_psd(G)
        for _ in range(50):
            A = rng.normal(size=(6, 6))
            step = rng.uniform(0, 1)
            other = (1 - step) * nearest + step * A @ A.T
            assert np.linalg.norm(G - nearest) <= np.linalg.norm(G - other) + 1e-12

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_it_is_symmetric_and_sound_as_it_is_stored(self, dtype):
        A = np.random.default_rng(0).normal(size=(200, 200))
        nearest = nearest_psd((A + A.T).astype(dtype))
        assert nearest.dtype == dtype
        np.testing.assert_array_equal(nearest, nearest.T)
        assert is_psd(nearest)

    def test_a_sound_matrix_is_not_changed(self):
        G = spectrum(3.0, 1.0, 0.5)
        np.testing.assert_array_equal(nearest_psd(G), G)

    @pytest.mark.parametrize(
        ("G", "message"),
        [
            (np.ones((2, 3)), r"^G must be a square matrix, not an array of shape \(2, 3\)$"),
            (np.full((2, 2), np.nan), r"^G must hold finite real numbers$"),
            (1j * np.eye(2), r"^G must hold finite real numbers$"),
        ],
    )
    def test_what_is_no_finite_square_matrix_is_refused(self, G, message):
        with pytest.raises(ValueError, match=message):
            nearest_psd(G)


# Dense Grams, kernels evaluated in blocks, and one kernel over all tasks: the three ways to a machine.
MODELS = [MKMTRLRegressor, TwoStageMKMTRLRegressor, MTRLRegressor]


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    return X, np.sin(X[:, 0]), np.repeat([0, 1], 20)


def fit(model, X, y, tasks, kernels, **parameters):
    known = model().get_params()
    parameters = {name: value for name, value in parameters.items() if name in known}
    return model(kernels, **parameters).fit(X, y, tasks=tasks)


@pytest.mark.parametrize("model", MODELS)
def test_indefinite_callables_and_grams_are_refused_by_every_way_to_a_machine(model, problem):
    X, y, tasks = problem
    with pytest.raises(
        ValueError, match=r"^kernel 'negative' is not positive|^kernel 'negative' has negative values k\(x"
    ):
        fit(model, X, y, tasks, [negative], random_state=0, n_rounds=50)
    G = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    G[2, 3] = G[3, 2] = 1.5
    with pytest.raises(ValueError, match=r"^kernel 'kernel 0' is not positive semi-definite on the training rows"):
        fit(model, G, y, tasks, "precomputed", random_state=0, n_rounds=50)


def negative(A, B):
    return -(A @ B.T)


@pytest.mark.filterwarnings("ignore::kernelkin.exceptions.ApproximationWarning")
@pytest.mark.parametrize("C", [1.0, 1e8])
def test_a_gram_indefinite_by_rounding_is_fitted_as_the_nearest_sound_one(problem, C):
    """So that its certificate is that of a convex problem, however large C is."""
    X, y, _ = problem
    G = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    values, vectors = np.linalg.eigh(G)
    values[:3] = -5e-7
    G = (vectors * values) @ vectors.T
    G = (G + G.T) / 2
    rounded = MKMTRLRegressor("precomputed", C=C).fit(G, y)
    sound = MKMTRLRegressor("precomputed", C=C).fit(nearest_psd(G), y)
    assert rounded.history_["primal"].min() == sound.objective_
    assert rounded.history_["bound"].max() == sound.objective_ - sound.duality_gap_
    # What predictions by the matrix as it is lose is counted.
    assert rounded.objective_ - rounded.duality_gap_ == pytest.approx(sound.objective_ - sound.duality_gap_)
    np.testing.assert_array_equal(rounded.predict(G), sound.predict(G))


@pytest.fixture
def G():
    X = np.random.default_rng(0).normal(size=(12, 4))
    return X @ X.T


def test_a_gram_of_the_wrong_shape_is_refused():
    for shape in [(12,), (12, 11), (1, 12, 12)]:
        with pytest.raises(ValueError, match=r"kernel 'g': a Gram matrix must be square, got shape"):
            check_gram("g", np.ones(shape), known_psd=True)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_values_that_are_not_finite_are_refused(G, value):
    G[2, 3] = value
    with pytest.raises(ValueError, match=r"kernel 'g' has NaN or infinite values, the first at \(2, 3\)"):
        check_gram("g", G, known_psd=True)


def test_overflow_is_not_silent():
    X = np.random.default_rng(0).normal(size=(6, 2)) * 1e150
    (kernel,) = fit_kernels(polynomial_kernels(3), X)
    with np.errstate(over="ignore"):
        G = evaluate([kernel], X)[0]
    with pytest.raises(ValueError, match="kernel 'poly3' has NaN or infinite values"):
        check_gram(kernel.name, G, kernel.function.known_psd)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-8)])
def test_asymmetry_above_the_precision_is_refused(G, dtype, tolerance):
    size = abs(G).max()
    check = G + np.triu(np.full(G.shape, 0.5 * tolerance * size), 1)
    check_gram("g", check.astype(dtype), known_psd=True)
    check = G + np.triu(np.full(G.shape, 2 * tolerance * size), 1)
    with pytest.raises(ValueError, match="kernel 'g' is not symmetric"):
        check_gram("g", check.astype(dtype), known_psd=True)


def test_a_kernel_that_is_zero_is_refused():
    with pytest.raises(ValueError, match="kernel 'g' is zero on all training rows"):
        check_gram("g", np.zeros((3, 3)), known_psd=True)


def test_the_sigmoid_kernel_is_caught():
    X = np.random.default_rng(0).normal(size=(30, 2)) * 3
    (kernel,) = fit_kernels(resolve_kernels("sigmoid"), X)
    with pytest.raises(
        ValueError, match=r"^kernel 'sigmoid' is not positive semi-definite on the training rows: smallest"
    ):
        check_gram(kernel.name, kernel(X), kernel.function.known_psd)


def test_precomputed_stack(G):
    assert check_precomputed(np.stack([G, 2 * G]), "trace") == precomputed_names(2) == ["kernel 0", "kernel 1"]
    with pytest.raises(ValueError, match=r"^kernel 'kernel 1' is zero on all training rows$"):
        check_precomputed(np.stack([G, 0 * G]), "trace")
    with pytest.raises(
        ValueError, match=r"^normalize='cosine' needs k\(x, x\) of the rows to predict, which precomputed"
    ):
        check_precomputed(np.stack([G, G]), "cosine")
