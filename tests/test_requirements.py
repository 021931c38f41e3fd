"""The lowest versions that are tested are the lowest that are declared."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTED = ("plot", "cli", "demo", "data", "parquet", "excel", "dask", "test")


def test_the_lowest_versions_are_those_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"], *(one for extra in TESTED for one in project["optional-dependencies"][extra])]
    bounds = [
        re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", one) for one in declared if not one.startswith("kernelkin[")
    ]
    assert None not in bounds, declared
    pinned = [line for line in (ROOT / "requirements-min.txt").read_text().splitlines() if not line.startswith("#")]
    assert pinned == [f"{bound[1]}=={bound[2]}" for bound in bounds]
