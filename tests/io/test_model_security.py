"""Files that somebody made on purpose, with all checksums right: they are refused before anything in them is used."""

import io
import json
import pickle
import struct
import sys
import zipfile

import numpy as np
import pytest

from kernelkin import load_model
from kernelkin.exceptions import ModelFileError

MARKER = "robustness.marker"
UNUSED_ID = 10**15


class ImportsMarker:
    """A pickle that imports a module when it is loaded, which the tests can see."""

    def __reduce__(self):
        import importlib

        return importlib.import_module, (MARKER,)


@pytest.fixture(autouse=True)
def nothing_is_executed(monkeypatch):
    monkeypatch.setattr("os.system", lambda command: pytest.fail("a file had a command executed"))
    yield
    assert MARKER not in sys.modules


def test_the_marker_shows_that_a_pickle_was_loaded():
    pickle.loads(pickle.dumps(ImportsMarker()))
    assert sys.modules.pop(MARKER)


def node(module, name, loader, number=UNUSED_ID, **fields):
    return {"__module__": module, "__class__": name, "__loader__": loader, "__id__": number, **fields}


def text(content, number=UNUSED_ID + 1):
    return node("builtins", "str", "JsonNode", number, content=json.dumps(content), is_json=True)


ARGUMENTS = node("builtins", "tuple", "TupleNode", UNUSED_ID + 2, content=[text("touch executed")])
EMPTY = node("builtins", "tuple", "TupleNode", UNUSED_ID + 3, content=[])
NO_TYPES = node("builtins", "list", "ListNode", UNUSED_ID + 4, content=[])
SYSTEM = node("os", "system", "FunctionNode", UNUSED_ID + 5)
KERNEL = node("sklearn.metrics.pairwise", "linear_kernel", "FunctionNode", UNUSED_ID + 6)
PARTIAL = {"func": SYSTEM, "args": ARGUMENTS, "kwds": EMPTY, "namespace": EMPTY}
PAYLOADS = {
    "function": SYSTEM,
    "kernel function where none belongs": KERNEL,
    "partial": node("functools", "partial", "PartialNode", content=PARTIAL),
    "method": node("builtins", "str", "MethodNode", content={"func": "format", "obj": text("x")}),
    "ufunc": node("numpy", "exp", "FunctionNode"),
    "type": node(MARKER, "run", "TypeNode"),
    "builtin type": node("builtins", "map", "TypeNode"),
    "object of a foreign class": node(MARKER, "run", "ObjectNode", content=text(None)),
    "estimator of scikit-learn": node("sklearn.pipeline", "Pipeline", "ObjectNode", content=text(None)),
    "list of a foreign class": node(MARKER, "run", "ListNode", content=[text("x")]),
    "dict of a foreign class": node(MARKER, "run", "DictNode", content={}, key_types=NO_TYPES),
    "constructor": node("os", "system", "ConstructorFromReduceNode", content=ARGUMENTS),
    "operator": node("operator", "methodcaller", "OperatorFuncNode", attrs=ARGUMENTS),
    "masked array": node("numpy.ma", "MaskedArray", "MaskedArrayNode", content={"data": EMPTY, "mask": EMPTY}),
    "bytes": node("builtins", "bytes", "BytesNode", file="schema.json"),
    "reference": node("builtins", "dict", "CachedNode", 1),
    "unknown loader": node("builtins", "str", "NoSuchNode"),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_foreign_part_is_named_and_refused(archive, name):
    tree, payload = archive.tree, PAYLOADS[name]
    tree["content"]["content"]["verbose"] = payload
    archive.write(tree=tree)
    expected = f"model.verbose is {payload['__module__']}.{payload['__class__']} ({payload['__loader__']}), which is no"
    with pytest.raises(ModelFileError) as caught:
        archive.load()
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", ["function", "estimator of scikit-learn", "reference"])
def test_a_file_has_to_be_one_of_an_estimator(archive, name):
    tree = archive.tree
    archive.write(tree={**PAYLOADS[name], **{field: tree[field] for field in ("protocol", "_skops_version")}})
    with pytest.raises(ModelFileError, match=r"model is \S+ \(\w+\), which is no part of a model"):
        archive.load()


def nodes(tree):
    """All nodes of a tree, depth first."""
    if isinstance(tree, dict):
        if "__loader__" in tree:
            yield tree
        for child in tree.values():
            yield from nodes(child)
    elif isinstance(tree, list):
        for child in tree:
            yield from nodes(child)


def first(tree, loader):
    return next(node for node in nodes(tree) if node["__loader__"] == loader)


def test_an_array_cannot_name_a_function_that_is_called_on_it(archive, monkeypatch):
    monkeypatch.setattr("sklearn.metrics.pairwise.rbf_kernel", lambda *args: pytest.fail("it was called"))
    tree = archive.tree
    first(tree, "NdArrayNode").update(__module__="sklearn.metrics.pairwise", __class__="rbf_kernel")
    archive.write(tree=tree)
    with pytest.raises(ModelFileError, match=r"is sklearn\.metrics\.pairwise\.rbf_kernel \(NdArrayNode\), which is no"):
        archive.load()


def test_a_kernel_function_is_loaded_where_a_kernel_is(archive, queries):
    tree = archive.tree
    found = [node["__class__"] for node in nodes(tree) if node["__loader__"] == "FunctionNode"]
    assert set(found) == {"laplacian_kernel"}
    assert np.isfinite(load(archive, tree).predict(queries)).all()


def load(archive, tree=None, **members):
    archive.write(tree=tree, **members)
    return archive.load()


def test_an_id_cannot_stand_for_two_objects(archive):
    """skops loads the first node of an id in the place of every other one, so a function could hide behind an array."""
    tree = archive.tree
    function = first(tree, "FunctionNode")
    tree["content"]["content"]["verbose"]["__id__"] = function["__id__"]
    with pytest.raises(ModelFileError, match="has the id of another object"):
        load(archive, tree)


def test_a_part_cannot_contain_itself(archive):
    tree = archive.tree
    kernels = tree["content"]["content"]["kernels_"]
    kernels["content"].append({**kernels, "content": []})
    with pytest.raises(ModelFileError, match=r"model\.kernels_\[\d+\] contains itself"):
        load(archive, tree)


def test_keys_cannot_name_a_function_that_is_called_on_them(archive):
    tree = archive.tree
    tree["content"]["key_types"]["content"][0].update(__module__="os", __class__="system")
    with pytest.raises(ModelFileError, match=r"model key types: os\.system is no part of a model"):
        load(archive, tree)


@pytest.mark.parametrize("name", ["predict", "__class__"])
def test_an_estimator_cannot_have_attributes_that_replace_its_methods(archive, name):
    tree = archive.tree
    attributes = tree["content"]
    attributes["content"][name] = text(1)
    attributes["key_types"]["content"].append(attributes["key_types"]["content"][0])
    with pytest.raises(ModelFileError, match=f"model cannot have an attribute '{name}'"):
        load(archive, tree)


def test_a_dataclass_has_its_fields_and_no_others(archive):
    tree = archive.tree
    state = tree["content"]["content"]["functions_"]["content"]
    name, value = state["content"].popitem()
    with pytest.raises(ModelFileError, match="key types are not those of its keys"):
        load(archive, tree)
    state["content"]["extra"] = value
    with pytest.raises(ModelFileError, match=r"model\.functions_ cannot have an attribute 'extra'"):
        load(archive, tree)
    del state["content"]["extra"]
    state["key_types"]["content"].pop()
    with pytest.raises(ModelFileError, match=rf"model\.functions_ lacks its attribute '{name}'"):
        load(archive, tree)


def object_array(items, shape):
    sizes = [text(size, UNUSED_ID + 10 + i) for i, size in enumerate(shape)]
    shape = node("builtins", "tuple", "TupleNode", UNUSED_ID + 9, content=sizes)
    return node("numpy", "ndarray", "NdArrayNode", type="json", content=items, shape=shape)


def test_object_arrays_hold_only_what_models_hold(archive):
    tree = archive.tree
    tree["content"]["content"]["verbose"] = object_array([text("a"), text("a")], [2])
    assert load(archive, tree).model.verbose.tolist() == ["a", "a"]
    tree["content"]["content"]["verbose"] = object_array([text("a"), SYSTEM], [2])
    with pytest.raises(ModelFileError, match=r"model\.verbose\[1\] is os\.system \(FunctionNode\)"):
        load(archive, tree)
    tree["content"]["content"]["verbose"] = object_array([text("a")], [10**12])
    with pytest.raises(ModelFileError, match=r"model\.verbose has another shape than it says"):
        load(archive, tree)


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def npz():
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=np.zeros(10))
    return buffer.getvalue()


ARRAY_FILES = {
    "pickle": (npy(np.array([ImportsMarker()], dtype=object), allow_pickle=True), "an array of 'object'"),
    "records": (npy(np.zeros(3, dtype=[("a", "f8")])), r"an array of .*, which is no part of a model"),
    "larger than its file": (npy(np.zeros(3)).replace(b"(3,)", b"(9,)"), "of another size than its file"),
    "negative size": (npy(np.zeros((2, 2))).replace(b"(2, 2)", b"(-2,-2)"), "of another size than its file"),
    "text without characters": (npy(np.zeros(3)).replace(b"'<f8'", b"'<U0'"), "which is no part of a model"),
    "huge without elements": (npy(np.zeros((0, 10**12))), "of another size than its file"),
    "archive": (npz(), "magic string is not correct"),
    "python pickle": (pickle.dumps(ImportsMarker()), "magic string is not correct"),
}


@pytest.mark.parametrize("name", ARRAY_FILES)
def test_an_array_file_holds_plain_values_as_many_as_it_says(archive, name):
    content, message = ARRAY_FILES[name]
    with pytest.raises(ModelFileError, match=message):
        load(archive, **{archive.arrays[0]: content})


def test_an_array_file_cannot_be_read_twice(archive):
    """A thousand nodes that refer to one file would take a thousand times its size."""
    tree = archive.tree
    array = first(tree, "NdArrayNode")
    tree["content"]["content"]["verbose"] = {**array, "__id__": UNUSED_ID}
    with pytest.raises(ModelFileError, match=r"model\.verbose is not an array"):
        load(archive, tree)


def test_every_member_belongs_to_the_model(archive):
    with pytest.raises(ModelFileError, match=r"'extra\.npy' belongs to no part of the model"):
        load(archive, **{"extra.npy": npy(np.zeros(3))})


def generator(bit_generator, pool_size):
    def entries(number, **values):
        types = [node("builtins", "str", "TypeNode", UNUSED_ID + 20) for _ in values]
        keys = node("builtins", "list", "ListNode", number + 50, content=types)
        content = {key: text(value, number + i + 1) for i, (key, value) in enumerate(values.items())}
        return node("builtins", "dict", "DictNode", number, content=content, key_types=keys)

    content = {
        "bit_generator": entries(UNUSED_ID + 100, bit_generator=bit_generator),
        "seed_seq": entries(UNUSED_ID + 200, entropy=1, pool_size=pool_size),
    }
    return node("numpy.random._generator", "Generator", "RandomGeneratorNode", content=content)


@pytest.mark.parametrize(("kind", "pool_size"), [("seed", 4), ("MT19937", 4), ("PCG64", 10**9)])
def test_a_random_generator_is_of_a_known_kind_and_size(archive, kind, pool_size):
    tree = archive.tree
    tree["content"]["content"]["verbose"] = generator(kind, pool_size)
    with pytest.raises(ModelFileError, match="a random generator of a kind that cannot be saved"):
        load(archive, tree)


def test_a_random_state_does_not_read_past_its_words(archive):
    tree = archive.tree
    state = tree["content"]["content"]["random_state_"]["content"]["content"]["state"]["content"]
    state["pos"].update(content="100000", __id__=UNUSED_ID)
    with pytest.raises(ModelFileError, match=r"model\.random_state_ is not a random state"):
        load(archive, tree)


def test_deep_nesting_is_refused(archive):
    tree = archive.tree
    nested = text("x")
    for level in range(100):
        nested = node("builtins", "list", "ListNode", UNUSED_ID + 10 + level, content=[nested])
    tree["content"]["content"]["verbose"] = nested
    with pytest.raises(ModelFileError, match="is nested too deeply"):
        load(archive, tree)
    with pytest.raises(ModelFileError, match="is not a saved model, or was cut short or damaged"):
        load(archive, b"[" * 100_000)


def test_values_in_the_tree_are_plain(archive):
    tree = archive.tree
    tree["content"]["content"]["verbose"] = {**text("x"), "content": "[" * 100_000}
    with pytest.raises(ModelFileError, match=r"model\.verbose is not a number or text"):
        load(archive, tree)


def test_a_file_that_expands_a_thousandfold_is_not_unpacked(archive, monkeypatch):
    monkeypatch.setattr("kernelkin.io.model_files._SMALL", 2**20)
    archive.write(**{archive.arrays[0]: bytes(8 * 2**20)})
    assert archive.path.stat().st_size < 10**5
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *arguments: pytest.fail("it was unpacked"))
    with pytest.raises(ModelFileError, match="would take far more memory than its size"):
        archive.load()


def test_a_member_of_another_size_than_the_archive_says(archive):
    archive.write()
    content = bytearray(archive.path.read_bytes())
    struct.pack_into("<I", content, content.index(b"PK\x01\x02") + 24, 2**31)
    archive.path.write_bytes(content)
    with pytest.raises(ModelFileError, match="would take far more memory than its size"):
        archive.load()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_members_are_refused(archive):
    archive.write()
    with zipfile.ZipFile(archive.path, "a") as changed:
        changed.writestr("schema.json", json.dumps(archive.tree))
    with pytest.raises(ModelFileError, match="contains duplicate entries"):
        archive.load()


def test_other_compressions_are_refused(archive):
    """The decoder of LZMA allocates what a file tells it to."""
    archive.write()
    with zipfile.ZipFile(archive.path, "a", zipfile.ZIP_LZMA) as changed:
        changed.writestr("extra.npy", npy(np.zeros(3)))
    with pytest.raises(ModelFileError, match="compressed in another way"):
        archive.load()


def test_a_file_without_an_end_is_not_read_to_its_end():
    with pytest.raises(ModelFileError, match="/dev/zero is not a saved model"):
        load_model("/dev/zero")
