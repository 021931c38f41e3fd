"""What `TableEncoder` makes of messy columns is what the guide says; the benchmark of this name shows skrub's too."""

from pathlib import Path

import pytest

from benchmarks.messy_columns import COLUMNS, encoder_of, ours

ROOT = Path(__file__).parents[2]
NUMBERS = ["`25,397`", "`30 EUR`", "`12.5 %`", '`1.234,5`, with `decimal=","`', "numbers with `n/a` and `-`"]
DATES = ["`31.12.2024`", "`31/12/2024`", "dates with `-`", "`17:45`"]


@pytest.mark.parametrize("name", COLUMNS)
def test_each_column_becomes_what_the_guide_says(name):
    assert f"\n| {name} | {ours(name)} | " in (ROOT / "docs" / "guide" / "messy_data.md").read_text()


def test_numbers_and_dates_in_texts_are_read():
    kinds = {name: encoder_of(name).columns_[0].kind for name in (*NUMBERS, *DATES)}
    assert kinds == dict.fromkeys(NUMBERS, "number") | dict.fromkeys(DATES, "date")
    assert encoder_of("`30 EUR`").columns_[0].unit == "EUR"
    assert encoder_of("`31/12/2024`").columns_[0].date_format == "%d/%m/%Y"
    assert encoder_of("numbers with `n/a` and `-`").columns_[0].n_missing == 14
