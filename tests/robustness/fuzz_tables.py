"""Tables with random changes. Reading them gives finite numbers or raises a ValueError."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import warnings
from argparse import Namespace
from pathlib import Path

import numpy as np

from kernelkin.cli.problem import read_problem
from kernelkin.tables.cells import CellError
from kernelkin.tables.encoder import check_names
from kernelkin.tables.files import read_pieces, read_table

HEADER = ["shop", "size", "day", "promo", "sales"]
TOKENS = [
    b"", b"NaN", b"nan", b"NA", b"N/A", b"null", b"None", b"-", b"inf", b"-Infinity", b"1e999", b"-1e999", b"1e-999",
    b"1e308", b"0x10", b"1_000", b"1,5", b"1;5", b"+1", b"-0.0", b"9" * 400, b"9223372036854775808", b"1e5x", b"True",
    b"FALSE", b'"', b'""', b'"a"b', b"'", b"\\", b"\t", b"\r", b"\n", b"\r\n", b"\0", b"\xff", b"\xc3\x28",
    b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", "\u0661\u0662".encode(), "caf\u00e9".encode(),
    b"\xf0\x9f\x98\x80", b"=1+1", b" ", b"x" * 70_000, b"2020-01-01", b"1+2j",
]  # fmt: skip
CODINGS = ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "utf-7", "cp037"]
ARGUMENTS = {
    "task": ["shop"],
    "target": ["sales"],
    "decimal": ".",
    "drop": [],
    "classification": False,
    "regression": False,
    "scoring": None,
    "loss": None,
    "offset": None,
    "exposure": None,
    "day_first": None,
}
PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def make_table(rng: random.Random) -> list[list[bytes]]:
    """Rows of fields, the header first."""
    rows = [
        [rng.choice([b"north", b"south"]), f"{rng.gauss(5, 2):.3f}".encode(), rng.choice([b"Mon", b'"Sat, late"', b""]),
         rng.choice([b"True", b"False"]), f"{rng.gauss(100, 9):.2f}".encode()]
        for _ in range(rng.choice([2, 6, 12]))
    ]  # fmt: skip
    return [[name.encode() for name in HEADER], *rows]


def mutate(rng: random.Random) -> tuple[bytes, str]:
    """A changed table, and the ending of its name."""
    rows, end, between, ending = make_table(rng), rng.choice([b"\n", b"\n", b"\r\n", b"\r"]), b",", ".csv"
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        rng.choice([_field, _field, _field, _long_row, _short_row, _header, _lines])(rows, rng)
    lines = [between.join(row) for row in rows]
    content = b"".join(line + (rng.choice([b"\r", b"\n"]) if rng.random() < 0.02 else end) for line in lines)
    for _ in range(rng.choice([0, 0, 0, 1, 3])):
        content = rng.choice([_flip, _cut, _insert, _recode])(content, rng)
    if rng.random() < 0.1:
        ending += rng.choice(sorted(PACKERS))
        content = PACKERS[ending.removeprefix(".csv")](content)
        content = rng.choice([_flip, _cut, lambda content, rng: content])(content, rng)
    return content, ending


def try_table(content: bytes, ending: str, folder: Path) -> str:
    """Read a changed table whole and by pieces -> "refused" or "read"; whatever else happens is an error."""
    path = folder / f"table{ending}"
    path.write_bytes(content)
    whole, pieces = _rows(lambda: _read_whole(str(path))), _rows(lambda: _read_by_pieces(str(path)))
    if whole is not None:
        assert pieces == whole, f"{whole} rows at once, {pieces} by pieces"
    return "refused" if whole is None else "read"


def _rows(read) -> int | None:
    try:
        return read()
    except ValueError as error:
        assert type(error) is ValueError, f"{type(error).__name__} is no error of ours: {error}"
        assert str(error)
        return None


def _read_whole(path: str) -> int:
    frame = read_table(path, "shop", "sales")
    try:
        _use(frame)
    except ValueError as error:
        assert type(error) in (ValueError, CellError) and str(error)
    return len(frame)


def _use(frame) -> None:
    """What a command does before it fits."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_names(frame.columns, [*ARGUMENTS["task"], *ARGUMENTS["target"]])
        problem = read_problem(frame, Namespace(**ARGUMENTS))
        schema = problem.schema
        X, y, tasks = (part(problem.frame) for part in (schema.encode, schema.targets, schema.tasks))
    assert X.shape == (len(problem.frame), len(schema.features)) and len(tasks) == len(y) == len(X)
    assert np.isfinite(X).all() and (y.dtype.kind != "f" or np.isfinite(y).all())


def _read_by_pieces(path: str) -> int:
    return sum(len(piece.frame) for piece in read_pieces(path, 3))


def _field(rows, rng):
    row = rng.choice(rows)
    if row:
        row[rng.randrange(len(row))] = rng.choice(TOKENS)


def _long_row(rows, rng):
    """One row, or all but the header, with a field too much."""
    for row in rng.choice([rows[1:], rows[1:], [rng.choice(rows)]]):
        row.insert(rng.randrange(len(row) + 1), rng.choice([b"", b"1", b"x"]))


def _short_row(rows, rng):
    for row in rng.choice([rows[1:], [rng.choice(rows)]]):
        del row[rng.randrange(len(row) + 1) :]


def _header(rows, rng):
    names = rows[0]
    if names:
        names[rng.randrange(len(names))] = rng.choice([*names, b"", b"sales.1", b"Unnamed: 0", b'"two\nlines"'])


def _lines(rows, rng):
    rng.choice(
        [
            lambda: rows.insert(rng.randrange(len(rows)), []),
            lambda: rows.insert(0, [b"a remark"]),
            lambda: rows.pop(0) if len(rows) > 1 else None,
            lambda: rows.__delitem__(slice(1, None)),
            rows.clear,
            lambda: rng.shuffle(rows),
        ]
    )()
    rows[:] = rows or [[]]


def _flip(content, rng):
    changed = bytearray(content)
    for _ in range(rng.choice([1, 3])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(content, rng):
    return content[: rng.randrange(len(content) + 1)]


def _insert(content, rng):
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(TOKENS) + content[at:]


def _recode(content, rng):
    return content.decode("utf-8", errors="ignore").encode(rng.choice(CODINGS), errors="ignore")
