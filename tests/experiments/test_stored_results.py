"""The pages and tables in docs/results are what the code makes of the stored results."""

import json
import re
from pathlib import Path

import pytest

from experiments import EXPERIMENTS, find_protocol
from experiments.report import page
from experiments.store import Result
from experiments.summary import summarise
from experiments.tables import to_csv

FOLDER = Path(__file__).parents[2] / "docs" / "results"


def stored(name):
    return [Result(**unit) for unit in json.loads((FOLDER / name / "results.json").read_text())]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_page_and_table_are_up_to_date(name):
    protocol, results = find_protocol(name), stored(name)
    defined = {(setting.name, model.name) for setting in protocol.settings for model in protocol.models(setting)}
    assert {(result.setting, result.model) for result in results} == defined
    text = (FOLDER / name / "README.md").read_text()
    # The only paragraph that depends on the day and the machine.
    (made,) = re.findall(r"^`python -m experiments [^`]+` with kernelkin .*$", text, re.MULTILINE)
    assert page(protocol, results, made) == text
    assert to_csv(protocol, summarise(protocol, results)) == (FOLDER / name / "results.csv").read_text()
