"""TableEncoder: what each kind of column becomes, whatever library the table is of."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import check_estimator

from kernelkin import TableEncoder
from kernelkin.tables.cells import as_days, as_numbers, find_format

N = 40
DATES = pd.date_range("2023-01-02", periods=N, freq="D")


def encode(values, **parameters):
    """One column -> its features by name."""
    encoder = TableEncoder(**parameters).fit({"x": values})
    return dict(zip(encoder.get_feature_names_out(), encoder.transform({"x": values}).T, strict=True)), encoder


def test_scikit_learn_checks():
    found = check_estimator(TableEncoder(), on_fail=None, on_skip=None)
    assert [check["check_name"] for check in found if check["status"] == "failed"] == []


def test_numbers_in_texts():
    for text, decimal, number in [
        ("25,397", ".", 25397),
        ("1.234.567,5", ",", 1234567.5),
        ("12,5", ",", 12.5),
        ("-3e2", ".", -300),
        ("\N{MINUS SIGN}3", ".", -3),
        ("1 234", ".", 1234),
        ("12,5", ".", np.inf),
        ("0,250", ".", np.inf),  # a quarter with a decimal comma, and no thousands
        ("-0.125", ",", np.inf),
        ("n.a.", ".", np.nan),
    ]:
        assert_array_equal(as_numbers(np.array([text, "x"], dtype=object), decimal), [number, np.inf])


def test_numbers_with_another_decimal_separator_are_told():
    encoder = TableEncoder().fit({"x": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"'0,25' in row 1, not a number with the decimal separator '\.' .*--decimal"):
        encoder.transform({"x": ["0,25", "1,5"]})
    with pytest.raises(ValueError, match=r"'0,25' in row 1, not a number: correct this cell or empty it$"):
        encoder.transform({"x": ["0,25", "no"]})
    with pytest.raises(ValueError, match=r"no column is left to learn from: the table has no rows\."):
        TableEncoder().fit(pd.DataFrame({"x": [1.0]})[:0])
    with pytest.raises(ValueError, match=r"no other columns\. For levels of groups alone, pass zeros as X$"):
        TableEncoder().fit(pd.DataFrame(index=range(9)))


def test_numbers_with_separators_and_units_are_standardised():
    numbers = np.arange(900.0, 1100.0, 5.0)
    for texts in ([f"{v:,.0f}" for v in numbers], [f"{v:.0f} EUR" for v in numbers], [f"€ {v:,.0f}" for v in numbers]):
        features, _ = encode(texts)
        assert_allclose(features["x"], (numbers - numbers.mean()) / numbers.std())
    assert TableEncoder().fit({"price (EUR)": numbers}).columns_[0].unit == "EUR"
    assert encode([f"{v:.0f} kg" for v in numbers])[1].columns_[0].unit == "kg"


def test_decimal_commas_are_read_on_request_and_named_otherwise():
    texts = [f"{v / 4:.2f}".replace(".", ",") for v in range(N)]
    assert_allclose(encode(texts, decimal=",")[0]["x"], encode(np.arange(N) / 4)[0]["x"])
    encoder = TableEncoder().fit({"x": texts, "other": range(N)})
    assert encoder.left_out_["x"] == "its numbers use the decimal separator ',', as in '0,00': set decimal to ','"


def test_formats_of_dates():
    for write, found in [
        ("%Y-%m-%d", "ISO"),
        ("%d.%m.%Y", "%d.%m.%Y"),
        ("%m/%d/%Y", "%m/%d/%Y"),
        ("%d %b %Y", "%d %b %Y"),
        ("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M"),
    ]:
        texts = [moment.strftime(write) for moment in DATES]
        assert find_format(texts) == (found, None)
        expected = np.arange(N) + (DATES[0] - pd.Timestamp("1970-01-01")).days
        assert_array_equal(as_days(np.array(texts, dtype=object), found), expected)


def test_dates_of_all_kinds_have_the_same_features():
    for values in [
        DATES,
        DATES.tz_localize("Europe/Berlin"),
        [moment.date() for moment in DATES],
        [moment.strftime("%Y-%m-%d") for moment in DATES],
        pa.array(DATES.date),
        pa.array(DATES.tz_localize("Europe/Berlin")),
        pl.Series(DATES).dt.replace_time_zone("America/Lima"),
    ]:
        features, encoder = encode(values)
        assert encoder.columns_[0].parts == ("time", "weekday")
        assert_allclose(features["x: time"], (np.arange(N) - np.arange(N).mean()) / np.arange(N).std(), atol=1e-8)
        assert_array_equal(features["x: Mon"], (np.arange(N) % 7 == 0).astype(float))
        assert_array_equal(sum(features[f"x: {day}"] for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")), 1.0)


def test_parts_of_dates_are_those_that_the_rows_can_tell_apart():
    def parts(**range_):
        return encode(pd.date_range("2023-01-02", **range_))[1].columns_[0].parts

    assert parts(periods=5, freq="D") == ("time",)
    assert parts(periods=60, freq="9D") == ("time", "season", "weekday")
    assert parts(periods=60, freq="MS") == ("time", "season")
    assert parts(periods=200, freq="5h") == ("time", "weekday", "hour")
    summer, winter = (encode(pd.date_range(start, periods=800, freq="D"))[0] for start in ("2023-07-01", "2024-01-01"))
    # The same place on the circle a year later, the opposite one half a year later.
    for name in ("x: season sin", "x: season cos"):
        assert_allclose(summer[name][365:430], summer[name][:65], atol=0.02)
        assert_allclose(winter[name][:300], -summer[name][:300], atol=0.06)


def test_rare_texts_share_a_feature_with_new_ones():
    texts = ["a"] * 10 + ["b"] * 5 + ["c", "d"]
    features, encoder = encode(texts)
    assert list(features) == ["x=a", "x=b", "x=(rare)"]
    assert features["x=(rare)"].tolist() == [0] * 15 + [1, 1]
    assert encoder.transform({"x": ["new", "a"]}).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert encoder.unseen({"x": ["new", "a"]}) == {}


def test_missing_values_are_the_mean_and_marked():
    features, encoder = encode([1.0, np.nan, 3.0, None])
    assert_array_equal(features["x"], [-1, 0, 1, 0])
    assert_array_equal(features["x: missing"], [0, 1, 0, 1])
    # Rows that are missing only later are the mean.
    complete = TableEncoder().fit({"x": [1.0, 3.0]})
    assert_array_equal(complete.transform({"x": [None, 3.0]}), [[0.0], [1.0]])
    assert encoder.groups_ == {"x": [0, 1]}


def test_columns_that_are_left_out_have_the_reason():
    for name, values, reason in [
        ("x", [f"r{i}" for i in range(N)], "a different text in every row"),
        ("order_id", range(N), "a different whole number in every row, and its name suggests row identifiers"),
        ("x", [7] * N, "the same in every row"),
        ("x", [None] * N, "empty"),
        ("x", [[1, 2]] * N, "which are not read"),
        ("x", [*map(str, range(1, N)), "oops"], "numbers mixed with text, such as 'oops' in row 40"),
        ("x", [*DATES.strftime("%Y-%m-%d")[1:], "2023-02-30"], "dates mixed with text, such as '2023-02-30' in row 40"),
    ]:
        encoder = TableEncoder().fit(pd.DataFrame({name: list(values), "number": range(N)}))
        assert [column.name for column in encoder.columns_] == ["number"]
        assert reason in encoder.left_out_[name]
        assert f"{name}: left out: {encoder.left_out_[name]}" in encoder.describe()


def test_codes_with_leading_zeros_stay_text():
    assert list(encode(["01", "02"] * 10)[0]) == ["x=01", "x=02"]


MIXED = {
    "size": [1.5, 2.5, None, 4.0] * 5,
    "count": list(range(20)),
    "town": ["York", "Bath", None, "York"] * 5,
    "open": [True, False] * 10,
    "day": [datetime.date(2024, 1, 1) + datetime.timedelta(5 * i) for i in range(20)],
}


def test_frames_of_all_libraries_are_encoded_alike():
    for library in ["pandas", "polars", "pyarrow"]:
        module = pytest.importorskip(library)
        frame = module.table(MIXED) if library == "pyarrow" else module.DataFrame(MIXED)
        expected = TableEncoder().fit(MIXED)
        encoder = TableEncoder().fit(frame)
        assert encoder.get_feature_names_out().tolist() == expected.get_feature_names_out().tolist()
        assert_allclose(encoder.transform(frame), expected.transform(MIXED))
        assert encoder.transform(frame).shape == (20, 15)


def test_an_array_is_a_table_of_numbers():
    X = np.random.default_rng(0).normal(3.0, 2.0, (20, 3))
    encoder = TableEncoder().fit(X)
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1", "x2"]
    assert_allclose(encoder.transform(X), (X - X.mean(axis=0)) / X.std(axis=0))


def test_output_as_a_frame():
    frame = pd.DataFrame(MIXED)
    out = TableEncoder().set_output(transform="pandas").fit_transform(frame)
    assert out.columns.tolist()[:3] == ["size", "size: missing", "count"]
    assert_array_equal(out.index, frame.index)


def test_large_and_small_numbers_are_described_without_powers_of_ten():
    table = pd.DataFrame({"income": [20_000.0, 61_234.5] * 4, "share": [0.00012, 0.00034] * 4})
    income, share = TableEncoder().fit(table).describe().splitlines()
    assert "(mean 40620, standard deviation 20620)" in income
    assert "(mean 0.00023, standard deviation 0.00011)" in share


def test_what_was_done_in_words():
    assert TableEncoder(drop=["count"]).fit(pd.DataFrame(MIXED)).describe().splitlines() == [
        "size: number, standardised (mean 2.667, standard deviation 1.027); 5 missing, marked by a feature",
        "town: text with 2 values, one feature each; 5 missing, marked by a feature",
        "open: yes or no, standardised",
        "day: date, as the time and the day of the week",
        "count: left out: dropped on request",
    ]


def test_columns_are_found_by_name_and_missing_ones_are_named():
    frame = pd.DataFrame(MIXED)
    encoder = TableEncoder().fit(frame)
    assert_array_equal(encoder.transform(frame[["day", "open", "town", "count", "size"]]), encoder.transform(frame))
    with pytest.raises(ValueError, match=r"^columns are missing: 'town', 'open'; the data has 'size', 'count', 'day'$"):
        encoder.transform(frame.drop(columns=["town", "open"]))


def test_nothing_in_the_table_is_changed():
    frame = pd.DataFrame(MIXED)
    before = json.dumps(MIXED, default=str)
    TableEncoder().fit(frame).transform(frame)
    assert json.dumps(frame.astype(object).where(frame.notna(), None).to_dict("list"), default=str) == before


def test_times_of_day():
    for values, words, features in [
        (["08:30", "14:00", "23:15", "08:45"], "time of day written like 17:45, as", ["time", "hour sin", "hour cos"]),
        (
            ["1/31/2024 2:30 PM", "2/1/2024 9:00 AM"] * 2,
            "date written like 12/31/2024 05:45 PM, as",
            ["time", "hour sin", "hour cos"],
        ),
    ]:
        frame = pd.DataFrame({"when": values, "x": [1.0, 2, 3, 5]})
        encoder = TableEncoder().fit(frame)
        assert encoder.describe().startswith(f"when: {words}")
        assert encoder.get_feature_names_out().tolist() == [*(f"when: {feature}" for feature in features), "x"]
        # The same cells as text, as a file is predicted.
        np.testing.assert_allclose(encoder.transform(frame.astype({"when": str})), encoder.transform(frame))


def test_numbers_that_floats_do_not_tell_apart_are_left_out():
    encoder = TableEncoder().fit({"a": [20240131, 20240201, 20241301], "b": [10**30 + i for i in range(3)]})
    assert "differ only after the first 15 digits" in encoder.left_out_["b"]


def days_and_months(days, form="{:02d}/{:02d}/2003"):
    return [form.format(month, day) for month in range(1, 13) for day in days]


def test_dates_that_may_be_read_in_two_ways_say_so():
    texts = days_and_months((3, 7, 11))
    with pytest.warns(
        UserWarning, match=r"the dates of column 'x' do not show whether the day or the month .*day_first=True"
    ):
        months, encoder = encode(texts)
    assert "written like 12/31/2024 (or the day first: see day_first)" in encoder.describe()
    days, encoder = encode(texts, day_first=True)
    assert "written like 31/12/2024," in encoder.describe()
    chosen, _ = encode(texts, day_first=False)
    assert_array_equal(chosen["x: time"], months["x: time"])
    assert not np.allclose(days["x: time"], months["x: time"])


@pytest.mark.parametrize(("form", "order"), [("{:02d}/{:02d}/2003", "12/31"), ("{1:02d}/{0:02d}/2003", "31/12")])
@pytest.mark.parametrize("day_first", [None, True])
def test_one_date_that_can_be_read_in_one_way_decides(form, order, day_first):
    _, encoder = encode(days_and_months((3, 13), form), day_first=day_first)
    assert f"written like {order}/2024," in encoder.describe()


def test_a_column_of_dates_takes_texts_whose_month_has_a_fixed_place():
    encoder = TableEncoder().fit({"x": DATES})
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%d %b %Y", "%Y/%m/%d"):
        assert_allclose(encoder.transform({"x": list(DATES.strftime(form))}), encoder.transform({"x": DATES}))
    # 2 January could be 1 February, while 13 January is read in one way only.
    with pytest.raises(ValueError, match="'02/01/2023' in row 1, not a date written like 2024-12-31"):
        encoder.transform({"x": list(DATES.strftime("%d/%m/%Y"))})


def test_dates_with_points_are_not_ambiguous():
    assert "like 31.12.2024," in encode(days_and_months((3, 7), "{1:02d}.{0:02d}.2003"))[1].describe()


@pytest.mark.parametrize(("texts", "kind"), [(["1,5", "2,5"], "text"), (["1,5", "2,5", "3,5"], None)])
def test_decimal_commas_are_pointed_out_from_three_values_on(texts, kind):
    """Two values may be names of classes; more are numbers that the option `decimal` reads."""
    table = pd.DataFrame({"size": range(12), "price": texts * (12 // len(texts))})
    encoder = TableEncoder().fit(table)
    assert {column.name: column.kind for column in encoder.columns_}.get("price") == kind
    assert ("set decimal to ','" in encoder.left_out_.get("price", "")) is (kind is None)
