import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import spearmanr
from scipy.stats import t as student_t
from sklearn.datasets import load_diabetes

from kernelkin import AverageClassifier, KinRegressor, MKMTRLClassifier, MKMTRLRegressor, task_relations
from kernelkin.relations.pooled import CommonFit, PooledRows, ScoreProducts
from kernelkin.relations.structure import _group_correlations, group_likeness
from kernelkin.storage.values import dump, load
from relations.problems import average_model, draw_function, group_problem, null_problem

NULLS = ("one function", "random labels", "different sizes", "noise only", "different levels")


def find(X, y, tasks, **options):
    options = {"n_permutations": 99, "random_state": 0, **options}
    return task_relations(average_model(X, y, tasks), X, y, tasks, **options)


def test_structure_is_claimed_in_at_most_one_of_25_problems_without_it():
    found = [find(*null_problem(kind, (seed, k))) for k, kind in enumerate(NULLS) for seed in range(5)]
    assert sum(relations.structured for relations in found) <= 1
    p = [relations.p_value for relations in found]
    # P-values are spread out, not merely large: twice a uniform one, for two statistics that hardly differ.
    assert 0.5 < np.mean(p) < 0.85 and min(p) < 0.2
    for relations in found:
        if not relations.structured:
            assert relations.n_groups == 1
            assert np.ptp(relations.likeness[~np.eye(6, dtype=bool)]) == 0


@pytest.mark.parametrize("n_groups", [2, 3])
def test_groups_are_found_in_5_problems_with_60_rows_a_task(n_groups):
    right = []
    for seed in range(5):
        X, y, tasks, groups = group_problem(n_groups, 60, seed)
        relations = find(X, y, tasks)
        right.append(relations.structured and (relations.groups == groups).all())
    assert right == [True] * 5


def test_random_wards_on_the_diabetes_data_have_no_structure():
    X, y = load_diabetes(return_X_y=True)
    wards = np.repeat([f"ward {w}" for w in range(6)], [150, 100, 80, 60, 32, 20])
    wards = np.random.default_rng(0).permutation(wards)
    model = MKMTRLRegressor(C=10.0).fit(20 * X, y, tasks=wards)
    relations = task_relations(model, 20 * X, y, wards, random_state=0)
    assert not relations.structured
    assert str(relations).startswith("No structure found (p = ")
    assert relations.null == "permutation"
    # The wards are alike, the smallest as much as the largest.
    likeness = relations.likeness[~np.eye(6, dtype=bool)]
    assert np.ptp(likeness) == 0 and likeness.min() > 0.95


def test_one_function_with_different_numbers_of_rows_is_one_function():
    rng = np.random.default_rng(0)
    sizes = [8, 12, 20, 35, 60, 110, 200]
    tasks = np.repeat(np.arange(7), sizes)
    X = rng.normal(size=(len(tasks), 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=len(tasks))
    model = MKMTRLRegressor(C=10.0).fit(X, y, tasks=tasks)
    relations = task_relations(model, X, y, tasks, random_state=0)
    assert not relations.structured
    assert (relations.groups == 0).all()
    # One value for all pairs, so that it cannot follow the number of rows; and it is near one.
    assert np.ptp(relations.likeness[~np.eye(7, dtype=bool)]) == 0
    assert relations.likeness[0, 1] > 0.9 and relations.intervals[0, 1, 1] >= relations.likeness[0, 1]


def test_likeness_is_that_of_groups_whatever_their_rows():
    """Tasks of 20 to 320 rows in two groups: with tasks of its group likeness is one value, with the others another."""
    rng = np.random.default_rng(0)
    sizes = [20, 80, 320, 20, 80, 320]
    tasks = np.repeat(np.arange(6), sizes)
    X = rng.normal(size=(len(tasks), 2))
    y = np.where(tasks < 3, X[:, 0], np.sin(2 * X[:, 1])) + 0.3 * rng.normal(size=len(tasks))
    likeness = find(X, y, tasks).likeness
    assert likeness[0, 1] == likeness[0, 2] > 0.9
    assert likeness[0, 3] == likeness[1, 4] == likeness[2, 5] < 0.3


def test_estimated_correlation_does_not_follow_the_number_of_rows():
    """Of many draws of tasks with 20 to 320 rows whose functions correlate at 0.5, each a group of its own."""
    sizes, found = np.array([20, 40, 80, 160, 320]), []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        common, own = draw_function(rng), [draw_function(rng) for _ in sizes]
        tasks = np.repeat(np.arange(5), sizes)
        X = rng.normal(size=(len(tasks), 2))
        y = common(X) + np.choose(tasks, [f(X) for f in own]) + 0.5 * rng.normal(size=len(tasks))
        model = average_model(X, y, tasks)
        rows = _pooled(model, X, y, tasks)
        groups, pairs = group_likeness(rows, np.arange(5), 0.95, np.random.RandomState(0))
        likeness = pairs[groups][:, groups, 0]
        found.append((likeness.sum(axis=1) - np.diag(likeness)) / 4)
    means = np.mean(found, axis=0)
    assert np.ptp(means) < 0.2
    assert abs(spearmanr(np.tile(sizes, 10), np.ravel(found)).statistic) < 0.2


def _pooled(model, X, y, tasks):
    from kernelkin.data.forms import read_training

    return PooledRows.of(model, read_training(X, y, tasks, None, classification=False), classification=False)


def test_features_of_kernels_have_mean_zero_and_variances_that_sum_to_one():
    X, y, tasks = null_problem("one function", 0)
    features = _pooled(average_model(X + 3.0, y, tasks), X + 3.0, y, tasks).features
    assert_allclose(features.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(features.var(axis=0).sum(), 1.0)


def test_columns_of_y_have_a_spread_of_one_whatever_their_levels_and_units():
    X, noise = np.random.default_rng(0).normal(size=(2, 40, 3))
    Y = (X + noise) * [1.0, 10.0, 100.0] + [0.0, 500.0, -3.0]
    targets = _pooled(average_model(X, Y, None), X, Y, None).targets.reshape(3, 40)
    assert_allclose(targets.std(axis=1), 1.0)


def test_products_of_noise_are_zero_on_average_whatever_the_number_of_rows():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), [3, 6, 12, 48])
    data = PooledRows(rng.normal(size=(69, 3)), np.zeros((69, 1)), codes, np.arange(69))
    products = ScoreProducts(data.features, data)
    # Noise that differs between tasks as well.
    scale = np.array([2.0, 1.0, 0.5, 1.5])[codes]
    draws = np.stack([products.matrix((scale * rng.normal(size=69))[:, np.newaxis]) for _ in range(2000)])
    error = draws.std(axis=0) / np.sqrt(2000)
    # Task means take a share 1/n of each residual's variance, which leaves a term of that order.
    assert (np.abs(draws.mean(axis=0)) < 4 * error + np.diag([0.5 * 4 * 3 * 2 / 3, 0.6, 0.1, 0.2])).all()


@pytest.mark.parametrize("wide", [False, True])
def test_products_leave_out_the_terms_of_a_row_with_itself(wide):
    """Against sums over all pairs of entries; on wide data a row of X has an entry in every task."""
    rng = np.random.default_rng(0)
    rows, codes = (np.tile(np.arange(10), 3) if wide else np.arange(30)), np.repeat(np.arange(3), 10)
    features = rng.normal(size=(10, 4))[rows] if wide else rng.normal(size=(30, 4))
    data = PooledRows(features, rng.normal(size=(30, 2)), codes, rows, wide)
    F, r = features - data.means(features), data.targets - data.means(data.targets)
    terms = (F @ F.T) * (r @ r.T) / 10 * (rows[:, None] != rows)
    expected = [[terms[np.ix_(codes == s, codes == t)].sum() for t in range(3)] for s in range(3)]
    assert_allclose(ScoreProducts(features, data).matrix(data.targets), expected, atol=1e-12)


@pytest.mark.parametrize("offsets", [True, False])
def test_the_common_fit_is_ridge_regression_with_offsets(offsets):
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(3), 15)
    data = PooledRows(rng.normal(size=(45, 4)), rng.normal(size=(45, 1)), codes, np.arange(45))
    fit = CommonFit(data, offsets=offsets)
    means = (codes[:, None] == codes) / 15 if offsets else np.full((45, 45), 1 / 45)
    centred, target = data.features - means @ data.features, data.targets - means @ data.targets
    reference = Ridge(fit.ridge, fit_intercept=False).fit(centred, target)
    assert_allclose(fit.fitted[:, 0], reference.predict(centred).ravel())
    # Simulated targets without errors of the other sign are the targets: their residuals are those of a second fit.
    assert_allclose(fit.simulate(np.zeros(45)), fit.fitted - fit.smooth(fit.fitted))
    # Residuals are smaller than errors by what each target contributes to its own fitted value, levels included.
    hat = means + centred @ np.linalg.solve(centred.T @ centred + fit.ridge * np.eye(4), centred.T)
    assert_allclose(fit.errors, fit.residuals / np.sqrt(1.0 - np.diag(hat))[:, None])


def test_functions_drawn_apart_have_no_likeness_on_average():
    """Noise adds to the square of the common function, which every pair of tasks shares."""
    codes, found = np.repeat(np.arange(3), 25), []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X, own = rng.normal(size=(75, 10)), rng.normal(size=(3, 10))
        y = (X * own[codes]).sum(axis=1, keepdims=True) + 2.0 * rng.normal(size=(75, 1))
        pairs = group_likeness(PooledRows(X, y, codes, np.arange(75)), np.arange(3), 0.95, rng)[1]
        found.append(pairs[0, 1:, 0].mean())
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(150) < 0.13


def test_tasks_of_few_noisy_rows_with_one_function_have_a_likeness_of_one():
    """The level of a task takes a share of its noise; it must not count as variance of the function of the task."""
    codes, found = np.repeat(np.arange(60), 4), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(240, 2))
        y = X[:, :1] + 1.5 * rng.normal(size=(240, 1)) + rng.normal(size=60)[codes, None]
        found.append(_group_correlations(PooledRows(X, y, codes, np.arange(240)), np.zeros(60, int))[0, 0])
    # Without the correction it is about 0.7.
    assert abs(np.median(found) - 1.0) < 3 * np.std(found) / np.sqrt(20) < 0.3


def test_intervals_of_likeness_are_those_of_a_jackknife(monkeypatch):
    """If the likeness is a mean over rows, its standard error is that of the means of ten parts."""
    rng = np.random.default_rng(0)
    y, seen = rng.uniform(0.0, 0.6, size=(60, 1)), []

    def mean(data, groups):
        seen.append(float(data.targets.mean()))
        return np.full((1, 1), seen[-1])

    monkeypatch.setattr("kernelkin.relations.structure._group_correlations", mean)
    rows = PooledRows(y, y, np.repeat([0, 1, 2], 20), np.arange(60))
    _, pairs = group_likeness(rows, np.zeros(3, int), 0.9, rng)
    value, *without = seen
    parts = 10 * value - 9 * np.array(without)
    reach = student_t.ppf(0.95, 9) * parts.std(ddof=1) / np.sqrt(10)
    assert_allclose(pairs[0, 0], [y.mean(), y.mean() - reach, y.mean() + reach])


def test_the_null_follows_from_the_data_and_its_reason_is_given():
    rng = np.random.default_rng(1)
    X, y, tasks = null_problem("one function", 1)
    assert find(X, y, tasks).reason == "the groups have similar inputs, levels and noise"
    assert find(X, y + 3.0 * tasks, tasks).reason == "the groups differ in their levels"
    assert find(X + 2.0 * tasks[:, np.newaxis], y, tasks).reason == "the groups differ in their inputs"
    Y = np.column_stack([X[:, 0], X[:, 1]]) + 0.1 * rng.normal(size=(len(X), 2))
    wide = task_relations(MKMTRLRegressor().fit(X, Y), X, Y, random_state=0)
    assert wide.reason == "the groups are columns of targets on the same rows" and wide.structured


def test_correlated_errors_of_tasks_on_the_same_rows_are_no_structure():
    rng = np.random.default_rng(0)
    p = []
    for _ in range(6):
        X, noise = rng.normal(size=(60, 2)), rng.normal(size=(60, 1))
        Y = np.sin(2 * X[:, [0]]) + 0.5 * noise + 0.2 * rng.normal(size=(60, 4))
        model = MKMTRLRegressor(C=10.0).fit(X, Y)
        p.append(task_relations(model, X, Y, n_permutations=99, random_state=0).p_value)
    assert min(p) > 0.02 and np.mean(p) > 0.3


def test_tasks_that_all_differ_are_said_to():
    X, y, tasks, _ = group_problem(6, 60, 0)
    apart = find(X, y, tasks)
    assert apart.structured and apart.n_groups == 6 and "any two of them can be told apart" in str(apart)


def test_groups_that_are_alike_are_one_whatever_the_test_says():
    """One function, of another size in each pair of tasks: the test tells the pairs apart, their likeness is one."""
    rng = np.random.default_rng(0)
    tasks, X = np.repeat(np.arange(6), 100), rng.normal(size=(600, 2))
    y = np.repeat([0.5, 1.0, 2.0], 200) * np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=600)
    relations = find(X, y, tasks)
    assert relations.structured and relations.n_groups == 1 and relations.likeness.min() > 0.99
    assert "no clusters of them can be told apart" in str(relations)
    # One pair that has a function of its own stays apart, and the tree has the others next to each other.
    y[:200] = np.sin(2 * X[:200, 1]) + 0.1 * rng.normal(size=200)
    relations = find(X, y, tasks)
    assert relations.groups.tolist() == [0, 0, 1, 1, 1, 1]
    joined = relations.linkage[relations.linkage[:, 3] == 4][0]
    assert joined[2] < relations.linkage[-1, 2]


def test_tasks_with_one_row_are_in_no_group():
    X, y, tasks, groups = group_problem(2, 40, 0)
    X, y, tasks = np.vstack([X, X[:2]]), np.append(y, y[:2]), np.append(tasks, [7, 8])
    model = KinRegressor(cv=2, random_state=0).fit(X, y, tasks=tasks)
    relations = task_relations(model, X, y, tasks, n_permutations=99, random_state=0)
    assert relations.tasks.tolist() == list(range(6)) and relations.groups.tolist() == groups.tolist()
    assert relations.left_out.tolist() == [7, 8] and "Groups with one row are in no cluster: 7, 8." in str(relations)


def test_classes_are_compared_too():
    X, y, tasks, groups = group_problem(2, 80, 0)
    labels = np.where(y > np.median(y), "yes", "no")
    model = MKMTRLClassifier().fit(X, labels, tasks=tasks)
    relations = task_relations(model, X, labels, tasks, random_state=0)
    assert relations.groups.tolist() == groups.tolist()


def test_classes_of_one_function_with_other_base_rates_are_one_function():
    claims = []
    for seed in range(100, 108):
        rng = np.random.default_rng(seed)
        tasks, X = np.repeat(np.arange(6), 100), rng.normal(size=(600, 3))
        odds = 2 * draw_function(rng, 3)(X) + np.linspace(-2, 2, 6)[tasks]
        y = rng.uniform(size=600) < 1 / (1 + np.exp(-odds))
        model = AverageClassifier().fit(X, y, tasks)
        claims.append(task_relations(model, X, y, tasks, n_permutations=99, random_state=0).structured)
    assert sum(claims) <= 1


def test_groups_are_found_with_kin():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(120, 2)), np.repeat(list("abcd"), 30)
    y = np.where(tasks < "c", X[:, 0], -X[:, 0]) + 0.3 * rng.normal(size=120)
    model = KinRegressor(random_state=0).fit(X, y, tasks=tasks)
    relations = task_relations(model, X, y, tasks, random_state=0)
    assert relations.structured and relations.groups.tolist() == [0, 0, 1, 1]


def test_kernel_matrices_are_compared_for_models_without_weights():
    X, y, tasks, groups = group_problem(2, 40, 0)
    grams = np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=2))[..., None]
    model = KinRegressor("precomputed", cv=2, random_state=0).fit(grams, y, tasks=tasks)
    relations = task_relations(model, grams, y, tasks, n_permutations=99, random_state=0)
    assert relations.groups.tolist() == groups.tolist()


def test_results_do_not_change_with_the_seed_given_nor_with_units():
    X, y, tasks, _ = group_problem(2, 30, 1)
    first, again = (find(X, y, tasks) for _ in range(2))
    assert first.p_value == again.p_value and (first.likeness == again.likeness).all()
    other = find(X, 1e6 * y - 5.0, tasks)
    assert_allclose(other.likeness, first.likeness, atol=1e-6)
    assert other.p_value == first.p_value


def test_saved_and_read_again():
    X, y, tasks, _ = group_problem(2, 40, 2)
    relations = find(X, y, tasks)
    read = load(*dump(relations))
    assert str(read) == str(relations)
    assert_allclose(read.likeness, relations.likeness)
    assert_allclose(read.intervals, relations.intervals)


def test_impossible_arguments_and_tasks_of_another_model_are_refused():
    X, y, tasks = null_problem("one function", 0)
    model = average_model(X, y, tasks)
    with pytest.raises(ValueError, match="n_permutations must be 39 or more, got 5"):
        task_relations(model, X, y, tasks, n_permutations=5)
    with pytest.raises(ValueError, match="the tasks of these rows are not those of the model"):
        task_relations(model, X, y, tasks + 1)
    with pytest.raises(ValueError, match="relations need at least two tasks with two or more rows"):
        task_relations(MKMTRLRegressor().fit(X, y), X, y)
