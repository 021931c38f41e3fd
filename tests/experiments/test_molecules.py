"""Fingerprints of molecules, where RDKit is installed, and splits by scaffold."""

import numpy as np
import pytest

from experiments.molecules import BITS, features, scaffolds, split_by_scaffold
from kernelkin.kernels import tanimoto_kernels

SMILES = ["c1ccccc1O", "c1ccccc1N", "CCO", "CCCCO", "O=C(O)c1ccccc1"]


def test_scaffolds_are_on_one_side_of_a_split():
    scaffold = np.random.default_rng(0).integers(40, size=300).astype(str)
    for seed in range(3):
        train, test = split_by_scaffold(scaffold, 0.2, seed)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(300))
        assert not set(scaffold[train]) & set(scaffold[test])
        assert 45 <= len(test) <= 60
    large = np.array(["a"] * 50 + [str(i) for i in range(50)])
    assert "a" not in large[split_by_scaffold(large, 0.3, 0)[1]]


def test_fingerprints_are_kept_in_a_file(tmp_path):
    pytest.importorskip("rdkit")
    made = features(SMILES, tmp_path / "features.npz")
    assert made["morgan2"].shape == (5, BITS) and made["maccs"].shape == (5, 167)
    kept = features(SMILES, tmp_path / "features.npz")
    assert made.keys() == kept.keys()
    for name, bits in made.items():
        np.testing.assert_array_equal(bits, kept[name])
    assert features(SMILES[:2], tmp_path / "features.npz")["morgan2"].shape == (2, BITS)
    with pytest.raises(ValueError, match=r"^RDKit cannot read 1 of 2 SMILES, the first one 'xyz'$"):
        features(["C", "xyz"])


def test_the_tanimoto_kernel_is_that_of_rdkit():
    pytest.importorskip("rdkit")
    from rdkit import DataStructs

    bits = features(SMILES)["morgan2"]
    vectors = [DataStructs.CreateFromBitString("".join(map(str, row))) for row in bits]
    expected = [DataStructs.BulkTanimotoSimilarity(vector, vectors) for vector in vectors]
    np.testing.assert_allclose(tanimoto_kernels()[0].fit(bits)(bits), expected)
    assert scaffolds(SMILES) == ["c1ccccc1", "c1ccccc1", "", "", "c1ccccc1"]
