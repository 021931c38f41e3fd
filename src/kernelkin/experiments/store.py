"""Results on disk: one JSON file for each finished (setting, model, run), written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Result:
    """What came out of one model in one run: a score for each task, and how it came about.

    `fingerprint` tells whether a stored result belongs to the experiment as it is defined now.
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

    @property
    def score(self) -> float:
        """The mean over tasks."""
        return sum(self.scores.values()) / len(self.scores)


class Store:
    """The results of one experiment, in a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, setting: str, model: str, run: int) -> Path:
        return self.folder / _slug(setting) / _slug(model) / f"run{run:02d}.json"

    def save(self, result: Result) -> None:
        write_whole(
            self.path(result.setting, result.model, result.run), json.dumps(asdict(result), indent=1, default=str)
        )

    def load(self, setting: str, model: str, run: int, fingerprint: str) -> Result | None:
        """The stored result; None where there is none, or it belongs to another definition of the experiment."""
        try:
            fields = json.loads(self.path(setting, model, run).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        result = Result(**fields)
        return result if result.fingerprint == fingerprint else None


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, or a kill, finds the old one or the new one and nothing between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
