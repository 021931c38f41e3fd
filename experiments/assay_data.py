"""Activity of molecules in assays (Tox21, ToxCast): labels, fingerprints, splits, and how predictions are judged."""

from __future__ import annotations

import gzip
import os
from csv import reader
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss

from . import metrics
from .molecules import describe_molecules, fingerprints, read_molecules, scaffolds, split_at_random, split_by_scaffold
from .protocol import Metric, Setting, Split

RANDOM, SCAFFOLD = "random split", "scaffold split"
SETTINGS = (Setting(RANDOM), Setting(SCAFFOLD))
TEST_SHARE = 0.2
# Where fingerprints are kept: making them takes minutes, and machines without RDKit can read them.
CACHE = Path("results") / "molecules"
_MISSING = -1


@dataclass(frozen=True)
class AssayData:
    """One data set.

    Attributes
    ----------
    labels : (n, T) 1 for active, 0 for inactive, NaN where a molecule was not tested.
    assays : (T,) names.
    packed : name of a fingerprint -> its bits (n, bytes), eight in a byte.
    widths : name of a fingerprint -> its number of bits.
    descriptors : (n, d) numbers, NaN where there is none.
    scaffold : (n,) the number of each molecule's scaffold.
    """

    labels: np.ndarray
    assays: tuple[str, ...]
    packed: dict[str, np.ndarray]
    widths: dict[str, int]
    descriptors: np.ndarray
    scaffold: np.ndarray

    def bits(self, name: str, rows: np.ndarray) -> np.ndarray:
        """(q, bits) of uint8."""
        return np.unpackbits(self.packed[name][rows], axis=1, count=self.widths[name])


@cache
def load(name: str) -> AssayData:
    """Read the data set from the cache; the first time, make it by RDKit from the file of SMILES."""
    path = CACHE / f"{name}.npz"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        _store(path, prepare(name))
    found = np.load(path)
    labels, names = found["labels"].astype(np.float64), found["names"].tolist()
    return AssayData(
        labels=np.where(labels == _MISSING, np.nan, labels),
        assays=tuple(found["assays"].tolist()),
        packed={each: found[each] for each in names},
        widths=dict(zip(names, found["widths"].tolist(), strict=True)),
        descriptors=found["descriptors"],
        scaffold=found["scaffold"],
    )


def prepare(name: str) -> AssayData:
    """Make fingerprints, descriptors and scaffolds of the molecules that RDKit can read."""
    folder = os.environ.get("KERNELKIN_DATA")
    if folder is None or not (Path(folder) / f"{name}.csv.gz").exists():
        raise ValueError(f"the experiment {name} needs {name}.csv.gz in the folder that KERNELKIN_DATA names")
    smiles, assays, labels = read_labels(Path(folder) / f"{name}.csv.gz")
    molecules = read_molecules(smiles)
    kept = [i for i, molecule in enumerate(molecules) if molecule is not None]
    readable = [molecules[i] for i in kept]
    bits = fingerprints(readable)
    return AssayData(
        labels=labels[kept],
        assays=assays,
        packed={each: np.packbits(values, axis=1) for each, values in bits.items()},
        widths={each: values.shape[1] for each, values in bits.items()},
        descriptors=describe_molecules(readable),
        scaffold=np.unique(scaffolds(readable), return_inverse=True)[1].astype(np.int32),
    )


def read_labels(path: Path) -> tuple[list[str], tuple[str, ...], np.ndarray]:
    """SMILES, assays and labels (n, T); a molecule that is there twice has the labels on which its rows agree."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        lines = list(reader(file))
    columns = {column: i for i, column in enumerate(lines[0]) if column not in ("smiles", "mol_id")}
    at = lines[0].index("smiles")
    values = np.array([[float(line[i] or "nan") for i in columns.values()] for line in lines[1:]])
    smiles, first = np.unique([line[at] for line in lines[1:]], return_inverse=True)
    active, known = (np.zeros((len(smiles), len(columns))) for _ in range(2))
    np.add.at(active, first, np.nan_to_num(values))
    np.add.at(known, first, np.isfinite(values))
    agreed = (known > 0) & ((active == 0) | (active == known))
    return smiles.tolist(), tuple(columns), np.where(agreed, (active > 0).astype(float), np.nan)


def _store(path: Path, data: AssayData) -> None:
    arrays = dict(data.packed)
    arrays |= {"names": np.array(list(data.packed)), "widths": np.array(list(data.widths.values()))}
    arrays |= {"labels": np.nan_to_num(data.labels, nan=_MISSING).astype(np.int8), "assays": np.array(data.assays)}
    arrays |= {"descriptors": data.descriptors, "scaffold": data.scaffold}
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def divide(name: str, rows: np.ndarray, kind: str, share: float, seed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Positions in `rows` that are kept and held out, by molecules or by scaffolds."""
    if kind == RANDOM:
        kept, held = split_at_random(len(rows), share, seed)
    else:
        kept, held = split_by_scaffold(load(name).scaffold[rows], share, seed)
    return kept, held


def split(name: str, setting: Setting, run: int) -> Split:
    """X are numbers of molecules, y their labels (n, assays), NaN where they were not tested."""
    data = load(name)
    every = np.arange(len(data.labels))
    train, test = divide(name, every, setting.name, TEST_SHARE, [run, 23])
    return Split(X=train, y=data.labels[train], X_test=test, y_test=data.labels[test], task_names=data.assays)


def calibration_error(y: np.ndarray, p: np.ndarray, n_bins: int = 10) -> float:
    """Mean distance of the mean probability and the share of actives, over bins with equal numbers of labels."""
    order = np.argsort(p, kind="stable")
    parts = np.array_split(order, n_bins)
    return float(sum(abs(p[part].sum() - y[part].sum()) for part in parts) / len(y))


def _log_loss(y: np.ndarray, p: np.ndarray) -> float:
    return float(log_loss(y, np.clip(p, 1e-4, 1 - 1e-4), labels=[0, 1]))


def _rounded_auc(y: np.ndarray, values: np.ndarray) -> float:
    return round(metrics.AUC.function(y, values), 5)


# Five digits, since scores of hundreds of assays are stored.
AUC = replace(metrics.AUC, function=_rounded_auc)
LOG_LOSS = Metric("log loss", _log_loss, "neg_log_loss", False, digits=4, probabilities=True, pooled=True)
CALIBRATION = Metric("calibration error", calibration_error, "neg_log_loss", False, 4, probabilities=True, pooled=True)
__all__ = ["AUC", "CALIBRATION", "LOG_LOSS", "RANDOM", "SCAFFOLD", "SETTINGS", "divide", "load", "split"]
