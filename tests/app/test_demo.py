import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ttest_1samp
from sklearn.metrics import roc_auc_score

from kernelkin.app import demo
from kernelkin.app.cli import main
from kernelkin.app.terminal import Terminal


def test_views_hold_the_pixels_they_are_named_for():
    X, digits, kernels = demo.load_views()
    assert X.shape == (len(digits), 80)
    images = X[:, :64].reshape(-1, 8, 8)
    columns = {kernel.name.split(":")[0]: list(kernel.columns) for kernel in kernels}
    assert len(columns) * 3 == len(kernels)
    assert_allclose(X[:, columns["upper right"]], images[:, :4, 4:].reshape(-1, 16))
    assert_allclose(X[:, columns["row sums"]], images.sum(axis=2))
    assert_allclose(X[:, columns["column sums"]], images.sum(axis=1))
    assert_allclose(X[:, columns["whole"]], X[:, :64])


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """A demo of few images, two kernels and two splits: what it returned, and where it drew."""
    folder = tmp_path_factory.mktemp("demo")
    X, digits, kernels = demo.load_views()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "load_views", lambda: (X, digits, [kernels[0], kernels[5]]))
        return demo.run_demo(Terminal(), folder, n_rows=60, n_splits=2), folder


def test_every_model_is_scored_on_every_split(outcome):
    result, _ = outcome
    for scores in (result.accuracy, result.auc):
        assert set(scores) == {demo.OURS, demo.AVERAGE, demo.SINGLE}
        stack = np.array(list(scores.values()))
        assert stack.shape == (3, 2, 10)
        assert (stack > 0.5).all()
        assert (stack <= 1).all()


def test_scores_come_from_images_the_model_has_not_seen(outcome):
    result, _ = outcome
    X, digits, _ = demo.load_views()
    train, test = next(demo._splits(digits, 60, 2))
    assert not set(train) & set(test)
    assert len(test) + len(train) == len(digits)
    model = result.models[demo.OURS]
    values = model.decision_function(X[test])
    assert_allclose(result.auc[demo.OURS][0], roc_auc_score(demo.one_vs_rest(digits[test]), values, average=None))
    assert_allclose(
        result.accuracy[demo.OURS][0], list(model.score_tasks(X[test], demo.one_vs_rest(digits[test])).values())
    )


def test_the_fit_is_certified(outcome):
    model = outcome[0].models[demo.OURS]
    assert model.duality_gap_ <= model.tol * model.objective_


def test_pictures_are_written(outcome):
    _, folder = outcome
    for name in ("kernel_weights", "task_relationship", "convergence"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_stars_mark_the_best_as_shown():
    assert demo._starred([0.91234, 0.91231, 0.5]) == ["*0.9123", "*0.9123", "0.5000"]


def test_the_table_tells_when_another_model_is_better():
    result = demo.DemoResult()
    for name, level in ((demo.OURS, 0.8), (demo.AVERAGE, 0.9), (demo.SINGLE, 0.7)):
        result.accuracy[name] = result.auc[name] = [np.full(10, level), np.full(10, level + 0.02)]
    *tasks, _, mean, error = demo._rows(result)
    assert tasks[3] == ["3", *["0.8100", "*0.9100", "0.7100"] * 2]
    assert mean == ["mean", *["0.8100", "*0.9100", "0.7100"] * 2]
    assert error == ["", *["±0.0100"] * 6]


@pytest.mark.parametrize(("sign", "verdict"), [(1, "better"), (-1, "worse")])
@pytest.mark.parametrize("seed", range(5))
def test_a_gain_counts_when_a_t_test_says_so(sign, verdict, seed):
    gains = sign * (0.5 + np.abs(np.random.default_rng(seed).normal(size=4)))
    clear = ttest_1samp(gains, 0).pvalue < 0.05
    assert demo.describe_gain(gains).endswith(f", {verdict if clear else 'within the noise'}")


def test_one_split_tells_nothing():
    assert demo.describe_gain(np.array([0.1])) == "+0.1000, on one split"


def test_the_command_passes_its_arguments_on(monkeypatch):
    seen = {}
    monkeypatch.setattr(demo, "run_demo", lambda terminal, folder, **sizes: seen.update(sizes, folder=folder))
    assert main(["demo", "-o", "here", "--rows", "30", "--splits", "2"]) == 0
    assert seen == {"folder": "here", "n_rows": 30, "n_splits": 2}


def test_too_many_images_are_refused_in_one_line(capsys, tmp_path):
    assert main(["demo", "--rows", "5000", "-o", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("kernelkin: error: ")
