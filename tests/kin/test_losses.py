"""What every loss of `KinRegressor` must do; they are listed in `LOSSES`."""

import numpy as np
import pytest

from kernelkin import KinRegressor
from kernelkin.kin.losses import LOSSES


@pytest.fixture(scope="module", params=LOSSES)
def case(request):
    """A loss, a model fitted with it to rows of 12 groups, and these rows; counts have exposures."""
    loss, rng = LOSSES[request.param], np.random.default_rng(0)
    tasks, X = np.repeat(np.arange(12), 12), rng.normal(size=(144, 2))
    rate = np.exp(0.5 * X[:, 0] + rng.normal(size=12)[tasks])
    hours = rng.integers(1, 6, 144) if loss.takes_offset else np.ones(144)
    y = rng.poisson(hours * rate)
    options = {"offset": np.log(hours)} if loss.takes_offset else {}
    return loss, KinRegressor(loss=loss.name, cv=3, random_state=0).fit(X, y, tasks, **options), X, y, tasks, options


def test_means_are_allowed_and_intervals_contain_about_their_share(case):
    loss, model, X, y, tasks, options = case
    mean = model.predict(X, tasks, **options)
    assert (mean >= loss.least).all()
    low, high = model.predict_interval(X, tasks, coverage=0.9, **options).T
    assert (low <= high).all() and (low >= loss.least).all() and np.mean((low <= y) & (y <= high)) > 0.85
    # Wider for a group that was not in training, and with more coverage.
    new = np.diff(model.predict_interval(X, np.full(len(X), -1), **options)).mean()
    assert new > np.diff(model.predict_interval(X, tasks, **options)).mean()
    wide = model.predict_interval(X, tasks, coverage=0.99, **options)
    assert (wide[:, 0] <= low).all() and (wide[:, 1] >= high).all()


def test_held_out_means_and_deviations_standardise_their_targets(case):
    loss, model, _, y, _, _ = case
    held = model.held_out_
    np.testing.assert_array_equal(held.y, y)
    sizes = loss.sizes(y, held.values, held.deviations)
    assert (sizes >= 0).all() and 0.8 < np.mean((y - held.values) ** 2 / held.deviations**2) < 1.25


def test_the_score_is_one_for_the_targets_and_zero_for_their_mean(case):
    loss, model, X, y, tasks, options = case
    assert loss.score(y, y + 1e-12) == pytest.approx(1.0, abs=1e-6)
    assert loss.score(y, np.full(len(y), y.mean())) == pytest.approx(0.0, abs=1e-9)
    assert model.score(X, y, tasks, **options) == loss.score(y, model.predict(X, tasks, **options)) > 0.3


def test_the_score_is_the_share_of_the_loss_that_is_explained(case):
    loss, model, X, y, tasks, options = case
    predicted, cost, weight = model.predict(X, tasks, **options), loss.likelihood().loss, np.arange(len(y)) % 3
    for w in (None, weight):
        found, null = (np.average(cost(y, m), weights=w) for m in (predicted, np.average(y, weights=w)))
        assert loss.score(y, predicted, w) == pytest.approx(1 - found / null)


def test_offsets_are_for_losses_that_take_them(case):
    loss, model, X, y, tasks, options = case
    if loss.takes_offset:
        mean = model.predict(X, tasks)
        np.testing.assert_allclose(model.predict(X, tasks, **options), mean * np.exp(options["offset"]), rtol=1e-8)
    else:
        with pytest.raises(ValueError, match="offset is for loss="):
            model.fit(X, y, tasks, offset=np.zeros(len(y)))
