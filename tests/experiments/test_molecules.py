"""Fingerprints of molecules, where RDKit is installed, and splits by scaffold."""

import numpy as np
import pytest

from experiments.assay_kernels import tanimoto
from experiments.molecules import BITS, describe_molecules, fingerprints, read_molecules, scaffolds, split_by_scaffold
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


def test_the_kernel_of_packed_bits_is_the_tanimoto_kernel():
    rng = np.random.default_rng(1)
    bits = (rng.uniform(size=(9, 167)) < 0.2).astype(np.uint8)
    bits[3] = 0
    packed = np.packbits(bits, axis=1)
    expected = tanimoto_kernels()[0].fit(bits)(bits[4:], bits)
    np.testing.assert_allclose(tanimoto(packed[4:], packed), expected, rtol=1e-6)


def test_fingerprints_and_scaffolds_are_those_of_rdkit():
    pytest.importorskip("rdkit")
    from rdkit import DataStructs

    molecules = read_molecules([*SMILES, "xyz"])
    assert molecules.pop() is None
    bits = fingerprints(molecules)
    assert bits["morgan2"].shape == (5, BITS) and bits["maccs"].shape == (5, 167)
    vectors = [DataStructs.CreateFromBitString("".join(map(str, row))) for row in bits["morgan2"]]
    expected = [DataStructs.BulkTanimotoSimilarity(vector, vectors) for vector in vectors]
    packed = np.packbits(bits["morgan2"], axis=1)
    np.testing.assert_allclose(tanimoto(packed, packed), expected, rtol=1e-6)
    assert scaffolds(molecules) == ["c1ccccc1", "c1ccccc1", "", "", "c1ccccc1"]
    assert describe_molecules(molecules).shape[0] == 5
