"""How much memory a fit may take: the variable, the machine and control groups."""

import pytest

from kernelkin import MKMTRLRegressor
from kernelkin.exceptions import GramMemoryError
from kernelkin.memory import available_memory, memory_limit
from memory.cases import long

GIB = 2**30


@pytest.mark.parametrize("text", ["much", "-1", "nan"])
def test_a_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("KERNELKIN_MEMORY_GIB", text)
    with pytest.raises(ValueError, match=f"KERNELKIN_MEMORY_GIB must be a number of GiB above zero, got '{text}'"):
        memory_limit()


def test_the_limit_is_what_is_set_or_what_is_available(monkeypatch):
    monkeypatch.setenv("KERNELKIN_MEMORY_GIB", "0.5")
    assert memory_limit() == GIB // 2
    monkeypatch.delenv("KERNELKIN_MEMORY_GIB")
    monkeypatch.setattr("kernelkin.memory.available_memory", lambda: 7)
    assert memory_limit() == 7


@pytest.fixture
def system(tmp_path):
    """A system with 8 GiB available; returns a function that adds files to it."""

    def add(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(tmp_path)

    add({"proc/meminfo": f"MemTotal: {99 * GIB // 1024} kB\nMemAvailable: {8 * GIB // 1024} kB\n"})
    return add


def test_without_groups_it_is_what_the_machine_has_available(system):
    assert available_memory(system({})) == 8 * GIB


def version_2(folder, limit, used, cache=0):
    base = f"sys/fs/cgroup{folder}"
    return {
        f"{base}/memory.max": f"{limit}\n",
        f"{base}/memory.current": f"{used}\n",
        f"{base}/memory.stat": f"anon {used}\ninactive_file {cache}\nactive_file 5\n",
    }


GROUPS = {
    "version 2": ({"proc/self/cgroup": "0::/job\n", **version_2("/job", 4 * GIB, GIB)}, 3 * GIB),
    "version 2, page cache is given back": (
        {"proc/self/cgroup": "0::/job\n", **version_2("/job", 4 * GIB, 3 * GIB, cache=2 * GIB)},
        3 * GIB,
    ),
    "version 2, a group above is tighter": (
        {"proc/self/cgroup": "0::/job/step\n", **version_2("/job", 2 * GIB, GIB), **version_2("/job/step", "max", GIB)},
        GIB,
    ),
    "version 2, in a container, whose group is the root": (
        {"proc/self/cgroup": "0::/\n", **version_2("", 2 * GIB, GIB)},
        GIB,
    ),
    "more used than allowed": ({"proc/self/cgroup": "0::/job\n", **version_2("/job", GIB, 2 * GIB)}, 0),
    "files that make no sense": (
        {"proc/self/cgroup": "nonsense\n0::/job\n", **version_2("/job", "lots", "some")},
        8 * GIB,
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_control_groups_count(system, name):
    files, expected = GROUPS[name]
    assert available_memory(system(files)) == expected


def test_a_fit_is_refused_just_below_its_estimate_and_goes_through_at_it(monkeypatch):
    X, y, tasks = long(2, 600)
    needed = MKMTRLRegressor().estimate_memory(X, y, tasks)
    monkeypatch.setattr("kernelkin.memory.available_memory", lambda: needed - 1)
    message = (
        rf"this fit may need {needed / GIB:.3g} GiB of memory, but only .* GiB are "
        "available: use the TwoStageMKMTRL estimators, .* fewer kernels or rows; or float32 X"
    )
    with pytest.raises(GramMemoryError, match=message):
        MKMTRLRegressor().fit(X, y, tasks=tasks)
    monkeypatch.setattr("kernelkin.memory.available_memory", lambda: needed)
    MKMTRLRegressor().fit(X, y, tasks=tasks)
