"""What becomes of messy columns: `TableEncoder` beside the `TableVectorizer` of skrub, as a table in Markdown.

python -m benchmarks messy_columns

skrub is not a dependency: install it to see both. Each column is in a table of 60 rows beside a column of numbers.
skrub is told that "-" is missing and that constant columns are dropped; dropping columns whose values all differ would
drop dates and numbers in texts too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from kernelkin import TableEncoder

N = 60


def _columns() -> dict[str, list[Any]]:
    rng, i = np.random.default_rng(0), np.arange(N)
    days, numbers = pd.date_range("2023-11-05", periods=N, freq="5D"), rng.integers(10, 90, N)
    dotted, iso = days.strftime("%d.%m.%Y"), days.strftime("%Y-%m-%d")
    return {
        "`25,397`": [f"{v:,}" for v in rng.integers(800, 40_000, N)],
        "`30 EUR`": [f"{v} EUR" for v in numbers],
        "`12.5 %`": [f"{v:.1f} %" for v in rng.uniform(10, 90, N)],
        '`1.234,5`, with `decimal=","`': [f"{v:.0f}.{v:03.0f},5" for v in rng.integers(100, 999, N)],
        "numbers with `n/a` and `-`": np.where(i % 7 == 0, "n/a", np.where(i % 11 == 0, "-", numbers.astype(str))),
        "numbers, and `about 80` in one row": np.where(i == 13, "about 80", numbers.astype(str)),
        "`31.12.2024`": dotted,
        "`31/12/2024`": days.strftime("%d/%m/%Y"),
        "dates with `-`": np.where(i % 9 == 0, "-", iso),
        "dates, and `soon` in one row": np.where(i == 5, "soon", iso),
        "dates of two formats": np.where(i % 2 == 0, dotted, iso),
        "`17:45`": [f"{v // 60:02}:{v % 60:02}" for v in rng.integers(0, 1440, N)],
        "`TRUE`, `FALSE`": rng.choice(["TRUE", "FALSE"], N),
        "codes such as `01067`": [f"0{v}" for v in rng.integers(1060, 1070, N)],
        "texts, two of them rare": rng.permutation(["sun"] * 40 + ["rain"] * 18 + ["hail", "snow"]),
        "a different text in every row": [f"receipt {k}" for k in i],
        "`order_id`": 1000 + i,
        "one value": ["x"] * N,
    }


COLUMNS = {name: list(values) for name, values in _columns().items()}


def encoder_of(name: str) -> TableEncoder:
    """Return our encoder, fitted on the column of this name."""
    return TableEncoder(decimal="," if "decimal" in name else ".").fit(_frame(name))


def ours(name: str) -> str:
    """Return what `TableEncoder` makes of a column."""
    encoder = encoder_of(name)
    if encoder.left_out_:
        return f"none: {next(iter(encoder.left_out_.values())).partition(':')[0]}"
    column = encoder.columns_[0]
    return _words(column.kind, len(column.features))


def theirs(name: str) -> str:
    """Return what skrub makes of a column."""
    from skrub import TableVectorizer

    frame = _frame(name)
    vectorizer = TableVectorizer(null_strings=["-"], drop_if_constant=True).fit(frame)
    kind = {"numeric": "number", "datetime": "date"}.get(vectorizer.column_to_kind_.get(frame.columns[0], ""), "text")
    count = len(vectorizer.get_feature_names_out()) - 1
    return _words(kind, count) if count else "none"


def _frame(name: str) -> pd.DataFrame:
    return pd.DataFrame({name.strip("`") if "id" in name else "column": COLUMNS[name], "other": np.arange(N) % 5 + 0.5})


def _words(kind: str, count: int) -> str:
    return f"{kind}, {count} feature{'s' if count > 1 else ''}"


def main() -> None:
    print("| column | `TableEncoder` | skrub |\n|---|---|---|")
    for name in COLUMNS:
        try:
            print(f"| {name} | {ours(name)} | {theirs(name)} |")
        except ImportError:
            print(f"| {name} | {ours(name)} | (not installed) |")
