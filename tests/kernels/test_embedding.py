"""The similarity of tasks by their inputs, against its definition."""

import numpy as np
import pytest

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels
from kernelkin.couplings import read_couplings
from kernelkin.kernels.embedding import input_similarity
from kernelkin.model_selection import MultiTaskCV

TASKS = np.repeat(["a", "b", "c", "d"], [30, 20, 25, 15])


def draw(seed=0):
    """Inputs of "a" and "b" around one place, of "c" and "d" around another one; targets that differ by place."""
    rng = np.random.default_rng(seed)
    side = np.isin(TASKS, ["c", "d"])
    X = rng.normal(size=(len(TASKS), 2)) + 2.0 * side[:, np.newaxis]
    return X, np.where(side, -1.0, 1.0) * X[:, 0] + 0.1 * rng.normal(size=len(X))


def read(X, y, tasks=TASKS, weight=None, **options):
    return MKMTRLRegressor(**options).training_data(X, y, tasks, weight)


def test_it_is_the_gaussian_kernel_between_mean_feature_vectors():
    X, y = draw()
    gram = gaussian_kernels((1.0,))[0].fit(X)(X)
    values, vectors = np.linalg.eigh(gram)
    features = vectors * np.sqrt(np.maximum(values, 0))
    means = np.array([features[task == TASKS].mean(axis=0) for task in "abcd"])
    squares = ((means[:, np.newaxis] - means) ** 2).sum(axis=2)
    expected = np.exp(-squares / (2 * np.median(squares[np.triu_indices(4, 1)])))
    np.testing.assert_allclose(input_similarity(read(X, y)), expected, atol=1e-10)


def test_it_is_a_kernel_and_separates_the_groups():
    M = input_similarity(read(*draw()))
    assert np.array_equal(np.diag(M), np.ones(4)) and np.array_equal(M, M.T)
    assert np.linalg.eigvalsh(M)[0] > -1e-12
    assert min(M[0, 1], M[2, 3]) > max(M[0, 2], M[0, 3], M[1, 2], M[1, 3])


def test_given_grams_are_averaged():
    X, y = draw()
    gram = gaussian_kernels((1.0,))[0].fit(X)(X)
    stack = np.stack([gram, 7.0 * gram], axis=2)
    given = input_similarity(read(stack, y, kernels="precomputed"))
    np.testing.assert_allclose(given, input_similarity(read(X, y)), atol=1e-10)


def test_a_weight_of_two_is_a_row_given_twice():
    X, y = draw()
    twice = np.arange(len(X)) % 3 == 0
    weighted = input_similarity(read(X, y, weight=1.0 + twice))
    repeated = input_similarity(read(*(np.concatenate([part, part[twice]]) for part in (X, y, TASKS))))
    np.testing.assert_allclose(weighted, repeated, atol=1e-10)


def test_tasks_on_the_same_rows_have_all_in_common():
    X, _ = draw()
    (coupling,) = read_couplings("inputs", read(X, np.column_stack([X, X]), tasks=None))
    assert coupling.is_common


@pytest.mark.parametrize("model", [MKMTRLRegressor(C=10.0), MKMTRLClassifier()])
def test_a_fit_shares_by_inputs(model):
    X, y = draw()
    y = y if isinstance(model, MKMTRLRegressor) else y > np.where(np.isin(TASKS, ["c", "d"]), -2.0, 0.0)
    fitted = model.set_params(couplings="inputs", tol=1e-6).fit(X, y, tasks=TASKS)
    by_hand = model.set_params(couplings={"inputs": input_similarity(read(*draw()))})
    np.testing.assert_allclose(by_hand.fit(X, y, tasks=TASKS).objective_, fitted.objective_, rtol=1e-5)
    assert [coupling.name for coupling in fitted.couplings_] == ["inputs"]
    with pytest.raises(ValueError, match="fit with couplings='common'"):
        fitted.set_params(unknown_tasks="common").predict(X[:1], tasks=["new"])


def test_a_search_learns_it_from_the_training_rows_of_each_fold():
    X, y = draw()
    model = MKMTRLRegressor("linear", C=10.0, couplings="inputs", tol=1e-8, max_iter=500)
    even = np.arange(len(X)) % 2 == 0
    halves = [(np.flatnonzero(even), np.flatnonzero(~even)), (np.flatnonzero(~even), np.flatnonzero(even))]
    search = MultiTaskCV(model, {"mu": [1.0]}, cv=halves, search_tol=1e-8, scoring="r2").fit(X, y, tasks=TASKS)
    for fold, (train, test) in enumerate(halves):
        model.set_params(mu=1.0).fit(X[train], y[train], tasks=TASKS[train])
        score = model.score(X[test], y[test], tasks=TASKS[test])
        np.testing.assert_allclose(search.cv_results_[f"split{fold}_test_score"][0], score, rtol=1e-4)
