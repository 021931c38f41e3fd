"""A scikit-learn transformer that encodes tables with mixed column types as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..data.arrays import Table, as_array, as_table, listing, missing
from ..exceptions import warn_user
from .cells import as_texts, header, split_number
from .columns import Column, ColumnReader, encode_columns


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table as numbers, with an encoding chosen for each column.

    Numbers, including those written as "25,397" or "30 EUR", are standardised. Booleans are treated as numbers. Texts
    are one-hot encoded; those that occur once, and all but the 30 most frequent, share a feature. Dates become the
    time, the season (sine and cosine), the day of the week and the time of day, if the dates span enough of each.
    Missing numbers are encoded as the mean and missing texts as none of the known texts; an extra feature marks them.
    Columns that are empty, constant, or identify rows are left out. `describe` shows how each column was encoded.

    Parameters
    ----------
    decimal : {".", ","}, default "."
        Decimal separator of numbers that are text; the other character separates thousands.
    drop : sequence of str, default ()
        Columns to leave out.
    day_first : bool or None, default None
        Whether 3/4/2024 is the third of April. If None, the month comes first, unless other dates of the column show
        otherwise; a warning names the columns that remain ambiguous.

    Attributes
    ----------
    columns_ : tuple of Column
        The columns that became features, each with its encoding.
    left_out_ : dict
        The columns that are left out, each with the reason.
    groups_ : dict
        For each column that became features, the positions of these features.
    n_features_in_ : int
        Number of columns of X in `fit`.
    feature_names_in_ : array of str
        Names of the columns of X, if it has names.

    Examples
    --------
    >>> import pandas as pd
    >>> from kernelkin import TableEncoder
    >>> table = pd.DataFrame({"day": ["Mon", "Sat"] * 3, "price (EUR)": ["1,200", "950", None] * 2, "id": range(6)})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['day=Mon', 'day=Sat', 'price (EUR)', 'price (EUR): missing']
    >>> print(encoder.describe())
    day: text with 2 values, one feature each
    price (EUR): number in EUR, standardised (mean 1075, standard deviation 125); 2 missing, marked by a feature
    id: left out: a different whole number in every row, and its name suggests row identifiers
    >>> encoder.transform(table).shape
    (6, 4)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "decimal": [StrOptions({".", ","})],
        "drop": ["array-like", tuple],
        "day_first": ["boolean", None],
    }

    columns_: tuple[Column, ...]
    left_out_: dict[str, str]

    def __init__(self, *, decimal=".", drop=(), day_first=None):
        self.decimal = decimal
        self.drop = drop
        self.day_first = day_first

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn how to encode each column from the training rows.

        Parameters
        ----------
        X : DataFrame of pandas, polars or Arrow, dict of columns, or array of shape (n, d)
            The training rows. An array of numbers is a table of numbers.
        y : None
            Ignored.

        """
        table = self._read(X, reset=True)
        dropped = list(map(str, self.drop))
        check_names(table.names, dropped)
        kept = table.select([k for k, name in enumerate(table.names) if str(name) not in dropped])
        reader = ColumnReader(self.decimal, self.day_first)
        cells = zip(map(str, kept.names), kept.columns, kept.types, strict=True)
        found = {name: reader.read(name, values, type_name) for name, values, type_name in cells}
        columns = tuple(column for column in found.values() if isinstance(column, Column))
        if ambiguous := [column.name for column in columns if column.ambiguous]:
            warn_user(
                f"the dates of column {listing(ambiguous)} do not show whether the day or the month comes first; they "
                "are read as month/day: set TableEncoder(day_first=True), or --day-first, if the day comes first",
                UserWarning,
            )
        self.left_out_ = dict.fromkeys(dropped, "dropped on request")
        self.left_out_ |= {name: reason for name, reason in found.items() if isinstance(reason, str)}
        if not columns:
            reasons = "; ".join(f"{name!r}: {reason}" for name, reason in list(self.left_out_.items())[:5])
            few = {0: "the table has no rows", 1: "the table has one row only (n_samples=1)"}
            reasons = few.get(table.n_rows, reasons) if table.names else "the table has no other columns"
            raise ValueError(f"no column is left to learn from: {reasons}. For levels of groups alone, pass zeros as X")
        self.columns_ = columns
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the features (n, n_features) of a table.

        Parameters
        ----------
        X : as for `fit`
            Columns in any order; columns that training did not have are ignored.
        """
        return self._encode(X)

    def encode(self, X: Any) -> Table:
        """Return the features as a table that records which of them belong together, as input for kernelkin models.

        Parameters
        ----------
        X : as for `transform`
        """
        features = self._encode(X)
        names = tuple(self.get_feature_names_out().tolist())
        origins = tuple((column.name, part) for column in self.columns_ for part, _ in column.parts_and_features)
        return Table(names, tuple(features.T), ("float64",) * len(names), origins)

    def unseen(self, X: Any) -> dict[str, list[str]]:
        """Return the texts that were not in the training data, by column; they are encoded as no known text.

        Columns in which rare texts share a feature are left out.

        Parameters
        ----------
        X : as for `transform`
        """
        table, found = self._read(X, reset=False), {}
        cells = dict(zip(map(str, table.names), table.columns, strict=True))
        for column in self.columns_:
            if column.kind == "text" and not column.n_rare:
                values = cells[column.name]
                known = set(column.categories)
                found[column.name] = sorted(set(as_texts(values[~missing(values)], known)) - known)
        return {name: texts for name, texts in found.items() if texts}

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features: "size", "day=Mon", "date: season sin", "size: missing".

        Parameters
        ----------
        input_features : ignored
        """
        check_is_fitted(self, "columns_")
        return np.array([name for column in self.columns_ for name in column.features], dtype=object)

    @property
    def groups_(self) -> dict[str, list[int]]:
        """The positions of the features of each column."""
        ends = np.cumsum([len(column.features) for column in self.columns_]).tolist()
        pairs = zip(self.columns_, ends, strict=True)
        return {column.name: list(range(end - len(column.features), end)) for column, end in pairs}

    def describe(self) -> str:
        """Return a description of the encoding, with one line for each column."""
        check_is_fitted(self, "columns_")
        lines = [f"{column.name}: {column.describe()}" for column in self.columns_]
        return "\n".join([*lines, *(f"{name}: left out: {reason}" for name, reason in self.left_out_.items())])

    def _encode(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "columns_")
        table = self._read(X, reset=False)
        check_names(table.names, [column.name for column in self.columns_])
        table = Table(tuple(map(str, table.names)), table.columns, table.types)
        return encode_columns(self.columns_, table, self.decimal)

    def _read(self, X: Any, *, reset: bool) -> Table:
        """Return X as a table; set the number of columns of an array or, with reset=False, check it."""
        table = None if issparse(X) else as_table(X, "X")  # some sparse matrices are mappings
        if table is None:
            array = X if issparse(X) else as_array(X, "X")
            array = check_array(array, dtype=None, ensure_all_finite=False, estimator=self, input_name="X")
            validate_data(self, array, reset=reset, skip_check_array=True)
            return Table(*zip(*((f"x{k}", column, str(array.dtype)) for k, column in enumerate(array.T)), strict=True))
        if reset and not isinstance(X, Table):
            validate_data(self, header(X) if isinstance(X, Mapping) else X, reset=True, skip_check_array=True)
        return table

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def unseen_warning(name: str, texts: Collection[str]) -> str:
    some = listing(sorted(texts), 5)
    return f"column {name!r} has values that were not in training: {some}; they are encoded as none of the known values"


def check_names(present: Iterable[Any], names: Sequence[str]) -> None:
    """Raise if one of these columns is missing or occurs twice; the error names all missing columns."""
    count = Counter(map(str, present))
    absent = [name for name in names if name not in count]
    if absent:
        are, has = "column is" if len(absent) == 1 else "columns are", list(count)
        raise ValueError(f"{are} missing: {listing(absent)}; the data has {listing(has, 20)}{_hint(absent[0], has)}")
    twice = [name for name in names if count[name] > 1]
    if twice:
        raise ValueError(f"column {min(twice)!r} occurs twice")


def _hint(absent: str, names: Sequence[str]) -> str:
    """Return a hint about why a column is missing."""
    if any("." in name and np.isfinite(split_number(name)[0]) for name in names):
        return "; the first row contains numbers but must be a header"
    if len(names) > 1 and all(name.startswith("Unnamed: ") for name in names[1:]):
        return "; the first line must be the header: remove the lines above it"
    marks = {";": "';'", "\t": "tab", "|": "'|'"}
    if mark := next((marks[mark] for mark in marks if any(mark in name for name in names)), None):
        return f"; if columns are separated by {mark}, read the file with this separator (--sep {mark})"
    plain = {name.strip().casefold(): name for name in reversed(names)}
    close = get_close_matches(absent.strip().casefold(), list(plain), n=1)
    return f"; did you mean {plain[close[0]]!r}?" if close else ""
