"""Reading the first sheet of an Excel file; whatever is wrong with a file is a ValueError."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame


def is_excel(path: str) -> bool:
    return Path(path).suffix.lower() in (".xlsx", ".xlsm")


def read_excel(path: str, most_columns: int) -> DataFrame:
    """The first sheet, whose first row is the header."""
    import pandas as pd

    # A file that does not exist or may not be read is an error of the system; any other error is the file's.
    open(path, "rb").close()
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not an Excel file (.xlsx): save it as one, or name it by what it is, such as .csv")
    try:
        frame = pd.read_excel(path, sheet_name=0)
    except ImportError as error:
        raise ImportError("reading Excel files needs openpyxl: install kernelkin[excel]") from error
    except Exception as error:  # openpyxl raises exceptions of nearly all kinds
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{path} is not an Excel file that can be read: {reason:.200}") from None
    frame.columns = frame.columns.map(str)
    if frame.shape[1] > most_columns:
        raise ValueError(f"{path} has {frame.shape[1]} columns; at most {most_columns} can be read")
    # Formatted rows below a table are read as empty ones.
    return frame.dropna(how="all").reset_index(drop=True)
