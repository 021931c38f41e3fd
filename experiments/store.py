"""Results on disk: one JSON file for each finished (setting, model, run), written whole or not at all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kernelkin.files import check_writable, write_whole


@dataclass(frozen=True)
class Result:
    """One model in one run: the score of each task, the parameters chosen, time, warnings and certificate.

    `fingerprint` identifies the definition of the experiment that the result belongs to; `figures` are those of the
    protocol's further metrics, and `memory` is the largest that the process had, in MiB.
    """

    setting: str
    model: str
    run: int
    scores: dict[str, float]
    seconds: float
    chosen: dict[str, Any] = field(default_factory=dict)
    warnings: dict[str, int] = field(default_factory=dict)
    effective_rank: float | None = None
    relative_gap: float | None = None
    fingerprint: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    memory: float | None = None

    @property
    def score(self) -> float:
        """The mean over tasks."""
        return sum(self.scores.values()) / len(self.scores)

    def score_of(self, tasks: Mapping[int, Sequence[str]]) -> float:
        """The mean over the tasks that are named for this run."""
        named = tasks[self.run]
        return sum(self.scores[task] for task in named) / len(named)


class Folder:
    """A folder with one file for each result. Several processes may use it at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not os.fspath(path):
            raise ValueError("the name of a folder is empty")
        self.path = Path(path)

    def prepare(self) -> None:
        """Create the folder; raise if it cannot be written to."""
        self.path.mkdir(parents=True, exist_ok=True)
        check_writable(self.path / "results.json")

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        return (self.path / name).read_bytes() if (self.path / name).exists() else None

    def write(self, name: str, content: bytes | str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)


class Store:
    """The results of one experiment, in a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Folder(folder)

    def name(self, setting: str, model: str, run: int) -> str:
        """The file of a result, inside the folder."""
        return f"{_slug(setting)}/{_slug(model)}/run{run:02d}.json"

    def save(self, result: Result) -> None:
        name = self.name(result.setting, result.model, result.run)
        self.folder.write(name, json.dumps(asdict(result), indent=1, default=str))

    def load(self, setting: str, model: str, run: int, fingerprint: str) -> Result | None:
        """The stored result; None where there is none, or it belongs to another definition of the experiment."""
        content = self.folder.read(self.name(setting, model, run))
        try:
            result = None if content is None else Result(**json.loads(content))
        except (ValueError, TypeError):  # damaged
            return None
        return result if result is not None and result.fingerprint == fingerprint else None

    def restore(self, results: str | bytes | None) -> None:
        """Take over the results of a file `results.json` that are not stored yet; a damaged file has none."""
        try:
            found = [] if results is None else [Result(**each) for each in json.loads(results)]
        except (ValueError, TypeError):
            return
        for result in found:
            if self.folder.read(self.name(result.setting, result.model, result.run)) is None:
                self.save(result)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
