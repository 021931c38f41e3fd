import numpy as np

from kernelkin.relations.scores import Gain, score_rows


def test_gains_have_the_interval_of_a_mean_of_rows_or_of_groups():
    d = np.random.default_rng(0).normal(size=(6, 4)) + 0.3
    for values, codes, by_group in ((d.ravel(), np.arange(24), False), (d.ravel(), np.repeat(np.arange(6), 4), True)):
        each = d.mean(axis=1) if by_group else values
        gain = Gain.of(values, codes, by_group)
        reach = 1.959964 * each.std(ddof=1) / np.sqrt(len(each))
        np.testing.assert_allclose(gain, [d.mean(), d.mean() - reach, d.mean() + reach], rtol=1e-6)


def test_true_levels_have_no_r2_within_groups_however_few_their_rows():
    rng = np.random.default_rng(0)
    for rows in (2, 3, 10):
        codes = np.repeat(np.arange(6000 // rows), rows)
        levels = rng.normal(size=len(codes) // rows)[codes]
        y = levels + rng.normal(size=len(codes))
        assert abs(score_rows(y, levels, codes)["R² within groups"]) < 0.05
    # A row that is alone in its group does not count.
    alone = score_rows(np.append(y, 9.0), np.append(levels, 0.0), np.append(codes, -1))
    assert alone["R² within groups"] == score_rows(y, levels, codes)["R² within groups"]
