import numpy as np

from kernelkin.relations.scores import score_rows


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
