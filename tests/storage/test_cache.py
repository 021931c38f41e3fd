import numpy as np
import pytest

from kernelkin.storage.cache import ResultCache


def test_arrays_are_kept_by_key(tmp_path):
    cache = ResultCache(tmp_path / "new" / "folder")
    stored = {"values": np.array([0.1, np.nan]), "names": np.array(["a", "\u00e9"]), "count": np.int64(3)}
    cache.store("school/mk-mtrl/run00", **stored)
    cache.store("other", flag=True)
    found = ResultCache(tmp_path / "new" / "folder").load("school/mk-mtrl/run00")
    assert list(found) == list(stored)
    for name, value in stored.items():
        np.testing.assert_array_equal(found[name], value)
    assert cache.load("other")["flag"].item() is True
    assert cache.load("missing") is None


def test_without_a_folder_nothing_is_kept():
    cache = ResultCache(None)
    cache.store("key", value=1)
    assert cache.load("key") is None


def test_a_damaged_file_counts_as_missing(tmp_path):
    cache = ResultCache(tmp_path)
    cache.store("cut", value=np.arange(100))
    cache.store("flipped", value=np.arange(100))
    cut, flipped = tmp_path / "cut.npz", tmp_path / "flipped.npz"
    cut.write_bytes(cut.read_bytes()[:200])
    content = bytearray(flipped.read_bytes())
    content[300] ^= 1
    flipped.write_bytes(content)
    assert cache.load("cut") is None and cache.load("flipped") is None
    cache.store("cut", value=1)
    assert cache.load("cut") == {"value": 1}


@pytest.mark.parametrize("key", ["", "../outside", "/absolute"])
def test_a_key_cannot_leave_the_folder(tmp_path, key):
    with pytest.raises(ValueError, match="a key consists of letters, digits"):
        ResultCache(tmp_path).store(key, value=1)


def test_objects_are_refused(tmp_path):
    with pytest.raises(TypeError, match="a cache keeps numbers and text: 'value' is an array of objects"):
        ResultCache(tmp_path).store("key", value=np.array([{}], dtype=object))
    assert not list(tmp_path.iterdir())
