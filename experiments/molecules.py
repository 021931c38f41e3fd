"""Molecules as rows: fingerprints, descriptors and scaffolds of SMILES by RDKit (the extra `chem`), and splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

BITS = 2048


def read_molecules(smiles: Sequence[str]) -> list[Any]:
    """RDKit's molecules; None for a SMILES that it cannot read."""
    from rdkit import Chem, RDLogger

    RDLogger.DisableLog("rdApp.*")  # what cannot be read is counted by the caller
    return [Chem.MolFromSmiles(text) for text in smiles]


def fingerprint_makers() -> dict[str, Callable[[Any], Any]]:
    """Name -> a function from a molecule to its bits."""
    from rdkit.Chem import MACCSkeys
    from rdkit.Chem import rdFingerprintGenerator as generators

    return {
        "morgan2": generators.GetMorganGenerator(radius=2, fpSize=BITS).GetFingerprintAsNumPy,
        "morgan3": generators.GetMorganGenerator(radius=3, fpSize=BITS).GetFingerprintAsNumPy,
        "maccs": lambda molecule: np.array(MACCSkeys.GenMACCSKeys(molecule), dtype=np.uint8),
        "atom pairs": generators.GetAtomPairGenerator(fpSize=BITS).GetFingerprintAsNumPy,
        "torsions": generators.GetTopologicalTorsionGenerator(fpSize=BITS).GetFingerprintAsNumPy,
        "paths": generators.GetRDKitFPGenerator(fpSize=BITS).GetFingerprintAsNumPy,
    }


def fingerprints(molecules: Sequence[Any]) -> dict[str, np.ndarray]:
    """Name -> bits (n, width) of uint8."""
    return {
        name: np.array([make(molecule) for molecule in molecules], dtype=np.uint8)
        for name, make in fingerprint_makers().items()
    }


def describe_molecules(molecules: Sequence[Any]) -> np.ndarray:
    """RDKit's descriptors (n, d) in single precision: NaN where there is none, large ones cut off."""
    from rdkit.Chem import Descriptors

    table = np.array([[function(molecule) for _, function in Descriptors.descList] for molecule in molecules])
    limit = float(np.finfo(np.float32).max)
    return np.clip(table, -limit, limit).astype(np.float32)


def scaffolds(molecules: Sequence[Any]) -> list[str]:
    """The scaffold of Bemis and Murcko of each molecule, as SMILES."""
    from rdkit.Chem.Scaffolds import MurckoScaffold

    return [MurckoScaffold.MurckoScaffoldSmiles(mol=molecule) for molecule in molecules]


def split_by_scaffold(scaffold: Sequence[Any] | np.ndarray, test_share: float, seed: Any) -> tuple[np.ndarray, ...]:
    """Training and test rows that have no scaffold in common; test scaffolds are drawn at random.

    The largest scaffolds, with more than half of the test rows each, stay in training, as is usual.
    """
    _, codes, counts = np.unique(np.asarray(scaffold), return_inverse=True, return_counts=True)
    wanted = test_share * len(codes)
    chosen, total = np.zeros(len(counts), dtype=bool), 0
    for group in np.random.default_rng(seed).permutation(len(counts)):
        if counts[group] <= wanted / 2 and total + counts[group] <= wanted:
            chosen[group], total = True, total + counts[group]
    test = chosen[codes]
    return np.flatnonzero(~test), np.flatnonzero(test)


def split_at_random(n: int, test_share: float, seed: Any) -> tuple[np.ndarray, ...]:
    """Training and test rows."""
    order = np.random.default_rng(seed).permutation(n)
    size = int(test_share * n)
    return np.sort(order[size:]), np.sort(order[:size])
