"""What the documentation says about the tests of relations is what was measured, and keeps its promises."""

import numpy as np
import pytest
from scipy.stats import binomtest

from benchmarks import relations, sharing


def records(part):
    return [record for record in relations.read() if record["part"] == part]


def test_structure_is_claimed_in_at_most_5_percent_of_the_problems_without_it():
    claims = {kind: [r["structured"] for r in records("null") if r["kind"] == kind] for kind in relations.KINDS}
    assert min(map(len, claims.values())) >= 45
    assert np.mean(np.concatenate(list(claims.values()))) <= 0.05
    for found in claims.values():
        # No kind is above the level by more than chance.
        assert binomtest(sum(found), len(found), 0.05, "greater").pvalue > 0.05


@pytest.mark.parametrize("n_groups", [2, 3])
def test_groups_are_right_in_90_percent_of_the_problems_with_80_rows_a_task(n_groups):
    right = [r["right"] for r in records("functions") if (r["groups"], r["rows"]) == (n_groups, 80)]
    assert len(right) >= 15 and np.mean(right) >= 0.9


def test_the_page_shows_what_is_kept():
    page = relations.PAGE.read_text()
    for content in (relations.tables(), relations.real_texts(), sharing.section()):
        assert content in page, "run python -m benchmarks relations --table, and sharing --table"
