"""Files that were damaged, or made on purpose with the right checksum: refused with one error, in bounded memory."""

import copy
import json
import pickle
import random
import sys
import tracemalloc
from datetime import date
from types import SimpleNamespace

import numpy as np
import pytest

from kernelkin import load_model
from kernelkin.data.forms import Grouping
from kernelkin.exceptions import ModelFileError
from kernelkin.paper import MeanRegressor
from kernelkin.storage.values import MOST_PARTS, ValueFault, dump, load

MARKER = "robustness.marker"
# Bytes of memory for each byte of a file that is damaged, and for modules and caches that loading fills.
MULTIPLE, CONSTANT = 60, 2**21
CODE = ["os:system", "builtins:eval", f"{MARKER}:run", "sklearn.pipeline:Pipeline", "kernelkin.progress:Progress"]
STRANGE = [
    None, True, -1, 0, 2**63, 10**400, 1e308, float("nan"), "", "../x", "\0", "\ud800", [], [[]], {}, "9" * 5000,
    {"at": 0}, {"at": -1}, {"at": 10**9}, {"at": True}, [10**12], [10**6, 10**6], [0, 10**12], [-1], "<f8", "|O", "<U0",
    "|V8", "<M8[ns]", "object", "function", "generator", *CODE,
]  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_is_executed(monkeypatch):
    monkeypatch.setattr("os.system", lambda command: pytest.fail("a file had a command executed"))
    yield
    assert MARKER not in sys.modules


def refused_or_loaded(path):
    """Load a file: any error but a ModelFileError that names it fails the test, and so does memory."""
    tracemalloc.start()
    try:
        return load_model(path)
    except ModelFileError as error:
        assert str(path) in str(error)
        return None
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MULTIPLE * path.stat().st_size + CONSTANT


def test_damaged_bytes_are_refused(saved):
    rng = random.Random(0)
    content, path = saved.content, saved.path
    for _ in range(250):
        begin, end = sorted(rng.choices(range(len(content)), k=2))
        flipped = content[:begin] + bytes([content[begin] ^ 1 << rng.randrange(8)]) + content[begin + 1 :]
        changed = rng.choice([flipped, content[:begin], content[:begin] + rng.randbytes(9) + content[end:]])
        path.write_bytes(changed)
        # The version that saved it is the one part of a file that nothing depends on.
        assert refused_or_loaded(path) is None or changed[:200] != content[:200]


def test_changed_values_are_loaded_or_refused(saved_content, saved):
    """Wrong types, huge counts, absurd shapes, names of code; the checksum is right."""
    rng, text, refused = random.Random(1), saved.text, 0
    for _ in range(250):
        saved.tree = json.loads(text)
        for _ in range(rng.randint(1, 3)):
            change(saved.tree, rng)
        refused += refused_or_loaded(saved.write().path) is None
    assert refused > 150


def change(tree, rng):
    """Give a random part of a JSON tree another value, or remove it."""
    parts = [part for part in containers(tree) if part]
    part = rng.choice(parts)
    key = rng.choice(list(part)) if isinstance(part, dict) else rng.randrange(len(part))
    if rng.random() < 0.2:
        del part[key]
    else:
        part[key] = copy.deepcopy(rng.choice([rng.choice(STRANGE), rng.choice(parts)]))


def containers(tree):
    yield tree
    for child in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(child, dict | list):
            yield from containers(child)


@pytest.mark.parametrize("name", CODE)
def test_code_and_foreign_classes_are_named_and_refused(saved, name):
    saved.node("object")[1] = name
    with pytest.raises(ModelFileError, match=f"'{name}' cannot be part of a model"):
        saved.write().load()


def test_functions_are_kernels_of_scikit_learn(saved):
    saved.node("function")[1] = "os.system"
    with pytest.raises(ModelFileError, match="does not hold the values of a model"):
        saved.write().load()


@pytest.mark.parametrize(
    ("cls", "name", "value", "message"),
    [
        ("MKMTRLRegressor", "predict", 1, "cannot have an attribute 'predict'"),
        ("MKMTRLRegressor", "__class__", 1, "cannot have an attribute '__class__'"),
        ("TableSchema", "decimals", 1, "does not have the fields of that class: 'decimals'"),
    ],
)
def test_attributes_are_those_of_the_class(saved, cls, name, value, message):
    saved.node("object", cls)[2].append([name, value])
    with pytest.raises(ModelFileError, match=message):
        saved.write().load()


def test_a_model_without_one_of_its_parameters_is_refused(saved):
    attributes = saved.node("object", "MKMTRLRegressor")[2]
    attributes[:] = [pair for pair in attributes if pair[0] != "min_rank"]
    with pytest.raises(ModelFileError, match="MKMTRLRegressor in it lacks its attribute 'min_rank'"):
        saved.write().load()


def test_the_schema_of_another_model(saved):
    saved.attribute("MKMTRLRegressor", "n_features_in_", 2)
    with pytest.raises(ModelFileError, match="its table has 3 features, its model 2"):
        saved.write().load()


@pytest.mark.parametrize("root", [3, [1, 2, 3], {"at": 0}])
def test_a_file_is_one_of_an_estimator(saved, root):
    saved.tree["root"] = root
    with pytest.raises(ModelFileError, match=r"changed\.kin cannot be loaded"):
        saved.write().load()


def test_arrays_are_as_large_as_they_say():
    for array, message in [
        (["array", "<f8", [9**9], 0], "does not match its bytes in the file"),
        (["array", "<f8", [-1], 0], "no array has the shape"),
        (["array", "<f8", [0, 10**12], 0], "no array has the shape"),
        (["array", "<f8", [1], 8], "does not match its bytes in the file"),
        (["array", "|O", [1], 0], r"an array of '\|O' cannot be part of a model"),
        (["array", "|b1", [1], 0], "values that are invalid for its type"),
        (["array", "<U1", [1], 0], "values that are invalid for its type"),
        (["objects", [3], [1]], "cannot reshape"),
    ]:
        with pytest.raises(ValueFault, match=message):
            load(json.dumps({"nodes": [array], "root": {"at": 0}}).encode(), b"\xff" * 8)


def test_bytes_of_arrays_are_read_once():
    """A thousand nodes that refer to one array would take a thousand times its size."""
    nodes = [["array", "<f8", [1], 0], ["array", "<f8", [1], 0]]
    with pytest.raises(ValueFault, match="does not match its bytes"):
        load(json.dumps({"nodes": nodes, "root": None}).encode(), bytes(8))
    with pytest.raises(ValueFault, match="belong to no part"):
        load(b'{"nodes": [], "root": null}', bytes(8))


def test_many_empty_objects_are_refused_before_they_are_parsed(saved, monkeypatch):
    """Twenty million of them took 1.7 GiB."""
    text = b'{"nodes":[' + b"{}," * 20_000 + b"{}]}"
    saved.write(text)
    assert refused_or_loaded(saved.path) is None
    monkeypatch.setattr("kernelkin.storage.values.MOST_PARTS", 10_000)
    monkeypatch.setattr(json, "loads", lambda text: pytest.fail("it was parsed"))
    with pytest.raises(ModelFileError, match=r"bytes of JSON with 4\d* parts, more than any model has"):
        saved.load()
    assert MOST_PARTS < 10**7


@pytest.mark.parametrize("node", [["dict", []], ["objects", [0], []]])
def test_memory_is_bounded_by_the_size_of_a_file_whatever_it_repeats(saved, node):
    saved.tree["nodes"].extend([node] * 50_000)
    assert refused_or_loaded(saved.write().path) is not None


def test_deep_nesting_is_refused(saved):
    nodes = [["list", []], *(["list", [{"at": k}]] for k in range(200))]
    with pytest.raises(ValueFault, match="nested too deeply"):
        load(json.dumps({"nodes": nodes, "root": {"at": 200}}).encode(), b"")
    assert refused_or_loaded(saved.write(b"[" * 100_000).path) is None


def test_values_of_all_kinds_come_back_as_they_were():
    shared = np.arange(3)
    value = {
        "plain": [None, True, 2**70, -0.0, float("inf"), "\ud800\0"],
        ("a", 1): 2, "slice": slice(1, None, 2), "empty": np.zeros((0, 3)), "named": Grouping("a", shared, shared),
        "numbers": tuple(range(50)), "reals": [0.1] * 20, "large": [2**64] * 20,
        "text": np.array(["\u00e9", ""]), "objects": np.array([1, "a", None], dtype=object).reshape(3, 1),
        "dates": np.array(["2024-01-31"], dtype="M8[D]"), "date": np.datetime64("2024-01-31T12"),
        "scalars": [np.float32(0.1), np.int8(-3), np.bool_(True), np.str_("x")],
        "space": SimpleNamespace(a=1, b=[2.5]), "twice": [shared, shared], "big": np.arange(3, dtype=">i4"),
    }  # fmt: skip
    found = load(*dump(value))
    assert found["twice"][0] is found["twice"][1]
    for name, (one, other) in {name: (value[name], found[name]) for name in value}.items():
        np.testing.assert_equal(other, one, err_msg=str(name))
        assert type(one) is type(other)
        if isinstance(one, np.ndarray):
            assert one.dtype.newbyteorder("=") == other.dtype and one.shape == other.shape
    assert [type(scalar) for scalar in found["scalars"]] == [type(scalar) for scalar in value["scalars"]]
    assert np.signbit(found["plain"][3])


def test_what_a_file_cannot_hold_is_refused_when_it_is_written():
    for value in [date(2024, 1, 1), print, int, np.random.default_rng(0), np.zeros(2, dtype=[("a", "f8")]), 1j]:
        model = MeanRegressor()
        model.here = value
        with pytest.raises(ValueFault, match=r"^here is "):
            dump(model)


def test_a_value_that_contains_itself_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(ValueFault, match="contains itself"):
        dump(loop)


@pytest.mark.parametrize("content", [pickle.dumps([1]), b"", b"PK\x03\x04", b"kernelkin model, format 1\n"])
def test_files_of_other_programs_are_refused(tmp_path, content):
    (tmp_path / "model.kin").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"model\.kin is not a saved model"):
        load_model(tmp_path / "model.kin")


def test_a_file_without_an_end_is_not_read_to_its_end():
    with pytest.raises(ModelFileError, match="/dev/zero is not a saved model"):
        load_model("/dev/zero")
