"""How much memory a fit may take."""

import pytest

from kernelkin.memory import available_memory, memory_limit


@pytest.mark.parametrize("text", ["much", "-1", "0", "nan"])
def test_a_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("KERNELKIN_MEMORY_GIB", text)
    with pytest.raises(ValueError, match="KERNELKIN_MEMORY_GIB must be a number of GiB"):
        memory_limit()


def test_the_limit_is_what_is_set_or_what_is_free(monkeypatch):
    monkeypatch.setenv("KERNELKIN_MEMORY_GIB", "0.5")
    assert memory_limit() == 2**29
    monkeypatch.delenv("KERNELKIN_MEMORY_GIB")
    monkeypatch.setattr("kernelkin.memory.available_memory", lambda: 7)
    assert memory_limit() == 7


def test_there_is_memory():
    assert available_memory() > 2**20
