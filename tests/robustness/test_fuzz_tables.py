"""Whatever a table holds, it is read correctly or refused by name."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelkin.cli import main as cli
from kernelkin.tables import TableSchema
from kernelkin.tables.files import read_pieces, read_table
from robustness import fuzz_parquet, fuzz_tables

EXAMPLES = 100
FUZZING = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("mutate", [fuzz_tables.mutate, fuzz_parquet.mutate], ids=["CSV", "Parquet"])
def test_changed_tables_are_refused_or_read(tmp_path, mutate):
    outcomes = Counter()

    @FUZZING
    @given(rng=st.randoms(use_true_random=False))
    def check(rng):
        content, ending = mutate(rng)
        outcomes[fuzz_tables.try_table(content, ending, tmp_path)] += 1

    check()
    # If all outcomes were of one kind, half of the assertions would be empty.
    assert min(outcomes["refused"], outcomes["read"]) > 0.1 * EXAMPLES


PLAIN = "a,b,c\n1,2,x\n3,4,y\n"
READ = {
    "a mark of the byte order": b"\xef\xbb\xbf" + PLAIN.encode(),
    "ends of lines of all kinds": b"a,b,c\r1,2,x\r\n3,4,y\n",
    "empty lines": b"\na,b,c\n\n1,2,x\n\n\n3,4,y",
    "quotes": b'"a","b",c\n"1",2,"x"\n3,"4",y\n',
    "an empty field at the end of each row": b"a,b,c\n1,2,x,\n3,4,y,\n",
}
REFUSED = {
    "nothing": (b"", "is empty"),
    "only a header": (b"a,b\n", "has no rows"),
    "one column": (b"a\n1\n", "one column"),
    "rows longer than the header": (b"a,b\n1,2,3\n4,5,6\n", "all rows have more fields than the header"),
    "a row longer than the others": (
        b"a,b\n1,2\n4,5,6\n",
        "line 3 has 3 fields, but the header has 2: put quotation marks around",
    ),
    "a column twice": (b"a,b,a\n1,2,3\n", "the column 'a' twice"),
    "a quote that is not closed": (b'a,b\n1,"2\n3,4\n', "opens in row 1 and is never closed"),
    "a quote that is not closed in the header": (
        b'"a,b\n1,2\n' + b"3,4\n" * 50_000,
        "opens in the header and is never closed",
    ),
    "UTF-16": (PLAIN.encode("utf-16"), "has the byte 0xff, which is not UTF-8: .* use --encoding utf-16"),
    "Latin-1": (
        "a,b\ncaf\u00e9,2\n".encode("latin-1"),
        "has the byte 0xe9, which is not UTF-8: .* use --encoding cp1252",
    ),
    "lines above the header": (b"# made by a machine\na,b\n1,2\n", "more fields .* remove lines above the header"),
    "JSON": (b'[{"a": 1, "b": 2}, {"a": 3, "b": 4}]', "is JSON, HTML or XML, not a table"),
    "HTML": (b"<!DOCTYPE html>\n<p>Not found, a\n", "is JSON, HTML or XML, not a table"),
}


@pytest.mark.parametrize("name", READ)
def test_tables_that_differ_only_in_form(tmp_path, name):
    (tmp_path / "t.csv").write_bytes(READ[name])
    whole = read_table(str(tmp_path / "t.csv"))
    pd.testing.assert_frame_equal(whole, pd.DataFrame({"a": [1, 3], "b": [2, 4], "c": ["x", "y"]}))
    pieces = pd.concat([piece.frame for piece in read_pieces(str(tmp_path / "t.csv"), 1)])
    assert pieces.to_numpy().tolist() == [["1", "2", "x"], ["3", "4", "y"]]


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_not_tables(tmp_path, name):
    content, message = REFUSED[name]
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(str(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["1e999", "1e308", "twelve"])
def test_a_target_that_is_not_a_number_is_named(tmp_path, capsys, text):
    rows = [f"{'ab'[i % 2]},{i}.5,{i * 7 % 10}.25" for i in range(20)]
    rows[3] = f"b,3.5,{text}"
    (tmp_path / "t.csv").write_text("\n".join(["task,x,y", *rows]))
    argv = ["fit", str(tmp_path / "t.csv"), "--task", "task", "--target", "y", "--regression"]
    assert cli.main([*argv, "-o", str(tmp_path / "m.kin")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("kernelkin: error: ") and error.count("\n") == 1 and "'y'" in error
    assert not (tmp_path / "m.kin").exists()


def test_tiny_numbers_keep_their_scale():
    frame = pd.DataFrame(
        {"t": ["a", "b"] * 2, "x": np.array([1.0, 2, 3, 5]) * 1e-200, "y": [1e-180, 3e-180, 2e-180, 0]}
    )
    schema = TableSchema.fit(frame, "t", "y", regression=True)
    np.testing.assert_allclose(schema.encode(frame).std(), 1.0)
    np.testing.assert_allclose(schema.targets(frame).std(), 1.0)
