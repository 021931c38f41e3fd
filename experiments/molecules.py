"""Molecules as rows: fingerprints and descriptors of SMILES by RDKit (the extra `chem`), and splits by scaffold.

The first step of `experiments tox21`: what is slow to compute is kept in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
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


def describe_molecules(molecules: Sequence[Any]) -> np.ndarray:
    """RDKit's descriptors (n, d), each as its normal score among the molecules; NaN and infinity as the median."""
    from rdkit.Chem import Descriptors
    from scipy.stats import norm, rankdata

    table = np.array([[function(molecule) for _, function in Descriptors.descList] for molecule in molecules])
    table[~np.isfinite(table)] = np.nan
    table = np.where(np.isnan(table), np.nanmedian(table, axis=0), table)
    table = table[:, np.ptp(table, axis=0) > 0]
    return norm.ppf((rankdata(table, axis=0) - 0.5) / len(table))


def features(smiles: Sequence[str], cache: Path | None = None) -> dict[str, np.ndarray]:
    """Name -> fingerprints (n, bits) of uint8; all molecules must be readable.

    With `cache`, a file of packed bits: read where it is there and is of the same molecules, written otherwise.
    """
    if cache is not None and cache.exists():
        stored = np.load(cache)
        if stored["smiles"].tolist() == list(smiles):
            widths = dict(zip(stored["names"].tolist(), stored["widths"].tolist(), strict=True))
            return {name: np.unpackbits(stored[name], axis=1, count=width) for name, width in widths.items()}
    molecules = read_molecules(smiles)
    unread = [text for text, molecule in zip(smiles, molecules, strict=True) if molecule is None]
    if unread:
        raise ValueError(f"RDKit cannot read {len(unread)} of {len(smiles)} SMILES, the first one {unread[0]!r}")
    found = {
        name: np.array([make(molecule) for molecule in molecules], dtype=np.uint8)
        for name, make in fingerprint_makers().items()
    }
    if cache is not None:
        arrays: dict[str, Any] = {name: np.packbits(bits, axis=1) for name, bits in found.items()}
        arrays |= {"smiles": np.array(smiles), "names": np.array(list(found))}
        arrays["widths"] = np.array([bits.shape[1] for bits in found.values()])
        np.savez_compressed(cache, **arrays)
    return found


def scaffolds(smiles: Sequence[str]) -> list[str]:
    """The scaffold of Bemis and Murcko of each molecule, as SMILES."""
    from rdkit.Chem.Scaffolds import MurckoScaffold

    return [MurckoScaffold.MurckoScaffoldSmiles(mol=molecule) for molecule in read_molecules(smiles)]


def split_by_scaffold(scaffold: Sequence[str], test_share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows that have no scaffold in common; test scaffolds are drawn at random.

    The largest scaffolds, with more than half of the test rows each, stay in training, as is usual.
    """
    _, codes, counts = np.unique(np.asarray(scaffold), return_inverse=True, return_counts=True)
    wanted = test_share * len(codes)
    test = np.zeros(len(codes), dtype=bool)
    for group in np.random.default_rng(seed).permutation(len(counts)):
        if counts[group] <= wanted / 2 and test.sum() + counts[group] <= wanted:
            test |= codes == group
    return np.flatnonzero(~test), np.flatnonzero(test)
