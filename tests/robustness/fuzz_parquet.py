"""Parquet files with random changes."""

from __future__ import annotations

import io
import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from robustness.fuzz_tables import HEADER

ROWS = 12
WHEN = datetime(2020, 1, 1)
# One value of each type that a column can have; most are refused.
ODD: list[tuple[Any, pa.DataType]] = [
    (True, pa.bool_()), (-(2**63), pa.int64()), (2**64 - 1, pa.uint64()), (7, pa.int8()), (1.5, pa.float32()),
    (float("inf"), pa.float64()), (float("nan"), pa.float64()), (1e308, pa.float64()), (5e-324, pa.float64()),
    (Decimal("1.50"), pa.decimal128(9, 2)), (Decimal("1" * 60), pa.decimal256(70, 2)), ("1", pa.string()),
    ("", pa.large_string()), ("\u00e9\U0001f642\0", pa.string()), (b"\xff", pa.binary()), (b"\xff", pa.binary(1)),
    ("a", pa.dictionary(pa.int8(), pa.string())), (1.5, pa.dictionary(pa.int32(), pa.float64())), (None, pa.null()),
    (WHEN, pa.timestamp("us")), (WHEN, pa.timestamp("ns", tz="UTC")), (2**50, pa.timestamp("s")),
    (86_400_000 * 2**30, pa.date64()), (date(1, 1, 1), pa.date32()), (WHEN.time(), pa.time64("us")),
    (timedelta(1), pa.duration("s")),
    ([1.0], pa.list_(pa.float64())), ({"a": 1}, pa.struct([("a", pa.int64())])),
    ([("a", 1)], pa.map_(pa.string(), pa.int64())), ([], pa.large_list(pa.null())),
]  # fmt: skip
ABOUT_PANDAS = [b"", b"{", b"null", b"[]", b'{"index_columns": ["shop"]}', b"\xff", b'{"columns": [{}]}', b"[" * 10_000]


def mutate(rng: random.Random) -> tuple[bytes, str]:
    """A changed file, and the ending of its name."""
    content = rng.choice([_plain, _plain, _plain, _odd])(rng)
    for _ in range(rng.choice([0, 1, 1, 2, 8])):
        content = rng.choice([_flip, _flip, _flip, _set, _cut, _splice])(content, rng)
    return content, ".parquet"


@cache
def _file(kind: int) -> bytes:
    """Small files of all ways to pack; seeded by their number."""
    rng = random.Random(kind)
    return _written(_table(rng, rng.choice([2, ROWS, ROWS])), rng)


def _plain(rng: random.Random) -> bytes:
    return _file(rng.randrange(20))


def _odd(rng: random.Random) -> bytes:
    """A column of another type, of another name, or with words about pandas that are none of its own."""
    table = _table(rng, ROWS)
    for _ in range(rng.choice([1, 1, 3])):
        at, (value, kind) = rng.randrange(len(HEADER)), rng.choice(ODD)
        values = [value if rng.random() < 0.8 else None for _ in range(ROWS)]
        name = rng.choice([*[table.column_names[at]] * 5, *HEADER, "", "__index_level_0__", "x" * 5000])
        table = table.set_column(at, name, pa.array(values, kind))
    if rng.random() < 0.3:
        table = table.replace_schema_metadata({b"pandas": rng.choice(ABOUT_PANDAS)})
    return _written(table.slice(0, rng.choice([0, ROWS, ROWS, ROWS, ROWS])), rng)


def _table(rng: random.Random, n: int) -> pa.Table:
    columns = [
        [rng.choice(["north", "south"]) for _ in range(n)],
        [rng.gauss(5, 2) for _ in range(n)],
        [rng.choice(["Mon", "Sat, late", None]) for _ in range(n)],
        [rng.random() < 0.5 for _ in range(n)],
        [rng.gauss(100, 9) for _ in range(n)],
    ]
    return pa.table(dict(zip(HEADER, columns, strict=True)))


def _written(table: pa.Table, rng: random.Random) -> bytes:
    buffer = io.BytesIO()
    how = {"use_dictionary": rng.random() < 0.5, "data_page_version": rng.choice(["1.0", "2.0"])}
    packed = rng.choice(["none", "snappy", "gzip", "zstd"])
    pq.write_table(table, buffer, compression=packed, row_group_size=rng.choice([3, 1000]), **how)
    return buffer.getvalue()


def _place(content: bytes, rng: random.Random) -> int:
    """Anywhere, or in the footer, which says where all else is."""
    return rng.randrange(rng.choice([0, max(0, len(content) - 1500), max(0, len(content) - 8)]), len(content) or 1)


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content or b"\0")
    changed[_place(changed, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _set(content: bytes, rng: random.Random) -> bytes:
    at, size = _place(content, rng), rng.choice([1, 1, 8])
    return content[:at] + bytes([rng.choice([0, 1, 127, 128, 255])]) * size + content[at + size :]


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)] if rng.random() < 0.2 else content


def _splice(content: bytes, rng: random.Random) -> bytes:
    at, size = _place(content, rng), rng.choice([1, 4, 30])
    piece = rng.choice([b"", content[at : at + size] * 2, rng.randbytes(size)])
    return content[:at] + piece + content[at + size :]
