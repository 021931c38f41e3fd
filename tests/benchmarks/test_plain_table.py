"""A plain `kernelkin fit` of a small mixed table predicts well; `python -m benchmarks plain_table` times it."""

from benchmarks.plain_table import fit_table, write_table


def test_a_plain_fit_finds_the_curve_and_the_colour(tmp_path):
    write_table(tmp_path / "data.csv")
    found = fit_table(tmp_path, "--keep-test")
    assert found["mean_scores"]["Kin"] >= 0.97
    assert found["mean_scores"]["AVG"] < 0.8
    assert max(found["column_shares"], key=found["column_shares"].get) in ("a", "all columns together")
