import csv
import gzip
import io

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelkin.tables.files import MOST_COLUMNS, TextFormat, check_output, open_output, read_pieces, read_table


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(
    ("cells", "tasks"),
    [
        (["01", "1", "001"], ["01", "1", "001"]),
        (["true", "TRUE", "True"], ["true", "TRUE", "True"]),
        (["NA", "nan", "None"], ["NA", "nan", "None"]),
        (["1.0", "1", "1e0"], ["1.0", "1", "1e0"]),
        (["9007199254740992", "9007199254740993", "1"], ["9007199254740992", "9007199254740993", "1"]),
        (["-3", "0", "12"], [-3, 0, 12]),
        (["9" * 5000, "1", "2"], ["9" * 5000, "1", "2"]),
    ],
)
def test_tasks_are_names(tmp_path, cells, tasks):
    rows = "".join(f"{cell},{i}.5,{i}\n" for i, cell in enumerate(cells))
    frame = read_table(write(tmp_path / "t.csv", "task,x,y\n" + rows), "task", "y")
    assert frame.task.tolist() == tasks
    pieces = pd.concat([piece.values(["x"], ["task"]) for piece in read_pieces(str(tmp_path / "t.csv"), 2)])
    assert pieces.task.tolist() == cells


def test_an_empty_task_is_missing(tmp_path):
    for labels in ("a,1\n,2\n", "1,1\n,2\n"):
        frame = read_table(write(tmp_path / "t.csv", "task,y\n" + labels), "task", "y")
        assert frame.task.isna().tolist() == [False, True]
    (piece,) = read_pieces(str(tmp_path / "t.csv"), 5)
    assert piece.values([], ["task"]).task.isna().tolist() == [False, True]


@pytest.mark.parametrize("codes", [["01067", "80331", "NA"], ["80331", "10115", "-05"], ["1.5", "02.5", "3"]])
def test_columns_with_leading_zeros_are_codes_and_stay_text(tmp_path, codes):
    rows = "".join(f"a,{code},{i + 1}00,0.{i},2024-01-0{i + 1},{i}\n" for i, code in enumerate(codes))
    path = write(tmp_path / "t.csv", "task,code,x,share,day,y\n" + rows)
    frame = read_table(path, "task", "y")
    assert frame.code.tolist() == [None if code == "NA" else code for code in codes]
    assert frame.x.tolist() == [100, 200, 300]
    assert frame.share.tolist() == [0.0, 0.1, 0.2]
    assert [piece.values(["code"], []).code.tolist() for piece in read_pieces(path, 9)] == [frame.code.tolist()]


@pytest.mark.parametrize(
    ("cells", "targets"),
    [
        (["1", "2.5", "-3e2"], [1.0, 2.5, -300.0]),
        (["1", "01", "2"], ["1", "01", "2"]),
        (["true", "TRUE", "false"], ["true", "TRUE", "false"]),
        (["yes", "1", "no"], ["yes", "1", "no"]),
    ],
)
def test_targets_are_numbers_or_names_of_classes(tmp_path, cells, targets):
    rows = "".join(f"a,{cell}\n" for cell in [*cells, "N/A"])
    frame = read_table(write(tmp_path / "t.csv", "task,y\n" + rows), "task", "y")
    assert frame.y.tolist()[:-1] == targets
    assert frame.y.isna().tolist() == [False, False, False, True]


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
CELLS |= st.sampled_from(["N/A", "NA", "", "01", "1.50", "TRUE", " x ", '"', 'a"b', "\r\n", "1e5", "=1+1", "'"])


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=8), size=st.integers(1, 9))
def test_pieces_have_the_cells_of_the_file_whatever_they_are(tmp_path_factory, rows, size):
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows([["a", "b", ""], *rows])
    path = write(tmp_path_factory.mktemp("cells") / "t.csv", buffer.getvalue())
    pieces = list(read_pieces(path, size))
    assert [row for piece in pieces for row in piece.frame.to_numpy().tolist()] == rows
    assert all(piece.header == ["a", "b", ""] for piece in pieces)


def test_a_table_with_too_many_columns_is_refused_by_its_header(tmp_path):
    header = ",".join(f"g{i}" for i in range(MOST_COLUMNS + 1))
    path = write(tmp_path / "t.csv", header + "\n")
    for read in (read_table, lambda path: next(read_pieces(path, 5))):
        with pytest.raises(ValueError, match=r"t\.csv has 100001 columns; at most 100000 can be read"):
            read(path)


def test_wide_tables_come_in_pieces_of_fewer_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelkin.tables.files.MOST_CELLS", 30)
    path = write(tmp_path / "t.csv", "a,b,c\n" + "1,2,3\n" * 21)
    assert [len(piece.frame) for piece in read_pieces(path, 20_000)] == [10, 10, 1]


def test_nul_in_the_header_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n1,2\n".encode("utf-16-le"))
    for read in (read_table, lambda path: list(read_pieces(path, 1))):
        with pytest.raises(ValueError, match=r"t\.csv is not text: if it is UTF-16, use --encoding"):
            read(path)


def test_a_file_without_end_is_not_read_to_it(tmp_path):
    (tmp_path / "t.csv").symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="is not text"):
        read_table(str(tmp_path / "t.csv"))


@pytest.mark.parametrize("name", ["t.csv.gz", "T.Csv.GZ", "t.TSV.gz", "t.v2.txt"])
def test_what_is_written_under_a_name_is_read_under_it(tmp_path, name):
    path = str(tmp_path / name)
    separator = check_output(path)
    with open_output(path) as file:
        file.write(separator.join("ab") + "\n" + separator.join(["é", "2"]) + "\n")
    assert read_table(path).to_numpy().tolist() == [["é", 2]]
    start = (tmp_path / name).read_bytes()[:6]
    assert start.startswith(b"\x1f\x8b" if name.lower().endswith("gz") else b"a")


@pytest.mark.parametrize("name", ["x.csv.zip", "x"])
def test_the_error_of_an_output_of_unknown_type_lists_the_types(tmp_path, name):
    with pytest.raises(ValueError) as caught:
        check_output(str(tmp_path / name))
    offered = str(caught.value).partition("must be one of ")[2]
    assert offered == ".csv, .tsv, .tab, .txt, each also with .gz; or - for stdout"


def test_packed_files_are_the_same_every_time(tmp_path):
    for path in (tmp_path / "a.csv.gz", tmp_path / "b.csv.gz"):
        with open_output(str(path)) as file:
            file.write("a,b\n")
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == b"a,b\n"


def test_a_failure_leaves_no_output(tmp_path):
    with pytest.raises(KeyError), open_output(str(tmp_path / "t.csv.gz")) as file:
        file.write("a,b\n")
        raise KeyError
    assert not list(tmp_path.iterdir())


EXCEL = {
    "text cells": (["01", "1", "1.0"], ["01", "1", "1.0"]),
    "text cells of integers": (["3", "1", "12"], [3, 1, 12]),
    "numbers": ([3, 1, 12], [3, 1, 12]),
    "numbers beside texts": ([1, "01", "1.0"], ["1", "01", "1.0"]),
    "words for missing cells": (["NA", "nan", "None"], ["NA", "nan", "None"]),
    "truth values as text": (["true", "TRUE", "True"], ["true", "TRUE", "True"]),
}


@pytest.mark.parametrize("name", EXCEL)
def test_text_cells_of_excel_are_the_names_that_they_are_in_csv(tmp_path, name):
    cells, tasks = EXCEL[name]
    frame = pd.DataFrame(
        {"task": cells, "x": [0.5, None, 2.5], "d": pd.date_range("2024-01-31", periods=3), "y": cells}
    )
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    frame.to_csv(tmp_path / "t.csv", index=False)
    excel, text = (read_table(str(tmp_path / file), "task", "y") for file in ("t.xlsx", "t.csv"))
    assert excel.task.tolist() == text.task.tolist() == tasks
    assert excel.y.astype(str).tolist() == text.y.astype(str).tolist() or name == "numbers"
    assert (excel.x.dtype, excel.d.dtype.kind) == (float, "M") and excel.x.isna().tolist() == [False, True, False]


def test_an_empty_task_or_target_of_excel_is_missing(tmp_path):
    pd.DataFrame({"task": ["a", None, "b"], "x": [1, 2, 3], "y": ["p", "q", None]}).to_excel(tmp_path / "t.xlsx")
    frame = read_table(str(tmp_path / "t.xlsx"), "task", "y")
    assert frame.task.isna().tolist() == [False, True, False] and frame.y.isna().tolist() == [False, False, True]


def test_two_columns_of_one_name_are_refused_in_every_format(tmp_path):
    frame = pd.DataFrame([["a", 1.0, 2.0]], columns=["shop", "size", "size"])
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.to_excel(tmp_path / "table.xlsx", index=False)
    for ending in (".csv", ".xlsx"):
        with pytest.raises(ValueError, match=f"table{ending} has the column 'size' twice: rename one of them"):
            read_table(str(tmp_path / f"table{ending}"))


def test_a_separator_is_one_character(tmp_path):
    path = write(tmp_path / "table.csv", "shop;size,m\na;1\n")
    assert read_table(path, form=TextFormat(";")).columns.tolist() == ["shop", "size,m"]
    with pytest.raises(ValueError, match="the column separator must be one character, not ';;'"):
        read_table(path, form=TextFormat(";;"))
