"""Whatever a file holds: the documented error or the right content, and nothing of it is obeyed."""

import io
import json
import pickle
import struct
import sys
import zipfile
import zlib

import numpy as np
import pandas as pd
import pytest

from kernelkin import load_model
from kernelkin.app import cli
from kernelkin.exceptions import ModelFileError
from kernelkin.model_files import sign
from kernelkin.tables.files import read_pieces, read_table
from robustness import fuzz, fuzz_models

ROUNDS_OF_MODELS, ROUNDS_OF_TABLES, ROUNDS_OF_PARQUET = 1200, 2000, 2000


def test_changed_models_are_refused_or_the_same(tmp_path):
    found = fuzz.fuzz_saved_models(ROUNDS_OF_MODELS, seed=0, folder=tmp_path)
    # Were all of one kind, the other half of what is asserted would say nothing.
    assert found["refused"] > 0.7 * ROUNDS_OF_MODELS and found["loaded"] > 0.02 * ROUNDS_OF_MODELS


def test_changed_tables_are_refused_or_read(tmp_path):
    found = fuzz.fuzz_csv_tables(ROUNDS_OF_TABLES, seed=0, folder=tmp_path)
    assert min(found["refused"], found["read"]) > 0.2 * ROUNDS_OF_TABLES


def test_changed_parquet_files_are_refused_or_read(tmp_path):
    found = fuzz.fuzz_parquet_tables(ROUNDS_OF_PARQUET, seed=0, folder=tmp_path)
    assert min(found["refused"], found["read"]) > 0.2 * ROUNDS_OF_PARQUET


def test_a_payload_that_were_obeyed_would_be_noticed():
    assert fuzz_models.MARKER not in sys.modules
    pickle.loads(pickle.dumps(fuzz_models.Obeyed()))
    assert sys.modules.pop(fuzz_models.MARKER)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The parts of a saved model."""
    path = tmp_path_factory.mktemp("models") / "model.skops"
    fuzz_models.make_model(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, parts):
    """An archive of these parts with all checksums right."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            if name != "kernelkin.json":
                archive.writestr(name, part)
        archive.writestr("kernelkin.json", json.dumps(sign(archive, json.loads(parts["kernelkin.json"]))))


def node(module, name, loader, **more):
    return {"__module__": module, "__class__": name, "__loader__": loader, "__id__": 10**9, **more}


TEXT = node("builtins", "str", "JsonNode", content='"touch /tmp/obeyed"', is_json=True)
ARGUMENTS = node("builtins", "tuple", "TupleNode", content=[TEXT])
PAYLOADS = {
    "function": node("os", "system", "FunctionNode"),
    "type": node("robustness.marker", "run", "TypeNode"),
    "object": node("robustness.marker", "run", "ObjectNode"),
    "list": node("robustness.marker", "run", "ListNode", content=[TEXT]),
    "constructor": node("os", "system", "ConstructorFromReduceNode", content=ARGUMENTS),
    "operator": node("operator", "methodcaller", "OperatorFuncNode", attrs=ARGUMENTS),
    "operator of another name": node("os", "system", "OperatorFuncNode", attrs=ARGUMENTS),
    "method": node("builtins", "str", "MethodNode", content={"func": "format", "obj": TEXT}),
    "partial": node(
        "functools",
        "partial",
        "PartialNode",
        content={"func": node("os", "system", "FunctionNode"), "args": ARGUMENTS, "kwds": TEXT, "namespace": TEXT},
    ),
}


@pytest.mark.parametrize("where", ["inside", "instead"])
@pytest.mark.parametrize("name", PAYLOADS)
def test_payloads_are_refused_with_all_checksums_right(saved, tmp_path, monkeypatch, name, where):
    monkeypatch.setattr("os.system", lambda command: pytest.fail("a file was obeyed"))
    tree = json.loads(saved["schema.json"])
    if where == "inside":
        tree["content"]["content"]["callback"] = PAYLOADS[name]
    else:
        tree = {**PAYLOADS[name], "protocol": tree["protocol"], "_skops_version": tree["_skops_version"]}
    write(tmp_path / "m.skops", {**saved, "schema.json": json.dumps(tree).encode()})
    with pytest.raises(ModelFileError, match="no part of a model"):
        load_model(tmp_path / "m.skops")
    assert fuzz_models.MARKER not in sys.modules


def test_a_pickle_in_an_array_is_not_loaded(saved, tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([fuzz_models.Obeyed()], dtype=object), allow_pickle=True)
    arrays = {name: buffer.getvalue() for name in saved if name.endswith(".npy")}
    write(tmp_path / "m.skops", {**saved, **arrays})
    with pytest.raises(ModelFileError, match="allow_pickle"):
        load_model(tmp_path / "m.skops")
    assert fuzz_models.MARKER not in sys.modules


def _npz():
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(3))
    return buffer.getvalue()


FOREIGN = {
    "a pickle": pickle.dumps(fuzz_models.Obeyed()),
    "nothing": b"",
    "a table": b"a,b\n1,2\n",
    "a page": b"<html></html>",
    "arrays": _npz(),
    "compressed": zlib.compress(b"model"),
    "the beginning of an archive": b"PK\x03\x04",
    "an empty archive": b"PK\x05\x06" + bytes(18),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("ending", [".skops", ".kkn", ".pkl"])
def test_foreign_files_are_no_models_whatever_their_name(tmp_path, name, ending):
    path = tmp_path / f"model{ending}"
    path.write_bytes(FOREIGN[name])
    with pytest.raises(ModelFileError, match="not a saved model"):
        load_model(path)
    assert fuzz_models.MARKER not in sys.modules


def test_what_has_no_end_is_not_read_to_it():
    with pytest.raises(ModelFileError, match="/dev/zero is not a saved model"):
        load_model("/dev/zero")


def test_a_file_that_grows_a_thousandfold_is_not_unpacked(saved, tmp_path, monkeypatch):
    path = tmp_path / "bomb.skops"
    write(path, {**saved, "zeros.npy": bytes(80 * 2**20)})
    assert path.stat().st_size < 10**6
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *arguments: pytest.fail("it was unpacked"))
    with pytest.raises(ModelFileError, match="far more memory than its size"):
        load_model(path)


def test_sizes_that_are_not_true(saved, tmp_path):
    path = tmp_path / "m.skops"
    write(path, saved)
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, at + 24, 2**31)
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="far more memory"):
        load_model(path)


def test_an_array_of_another_length_than_it_holds(saved, tmp_path):
    name = next(name for name in saved if name.endswith(".npy"))
    with pytest.raises(ModelFileError):
        long = saved[name].replace(b"'shape': (", b"'shape': (99999999999999,", 1)
        write(tmp_path / "m.skops", {**saved, name: long})
        load_model(tmp_path / "m.skops")


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"schema": {}}, "not the fields of a schema"),
        ({"schema": [1]}, "not the fields of a schema"),
        ({"schema": {"n_rows": -1}}, "n_rows of a schema cannot be -1"),
        ({"schema": {"target_scale": 0}}, "target_scale of a schema cannot be 0"),
        ({"schema": {"target_mean": 10**400}}, "target_mean of a schema cannot be 1000"),
        ({"schema": {"target_scale": float("nan")}}, "target_scale of a schema cannot be nan"),
        ({"schema": {"columns": [{"kind": "code"}]}}, "not the fields of a schema"),
        ({"schema": {"columns": []}}, "columns of a schema cannot be"),
        ({"about": 3}, "what it says of the model"),
        ({"format": True}, "does not say which version"),
        ({"kernelkin": None}, "does not say which version"),
    ],
)
def test_facts_of_another_kind(saved, tmp_path, facts, message):
    known = json.loads(saved["kernelkin.json"])
    if "columns" in facts.get("schema", {}) or "n_rows" in facts.get("schema", {}) or "target_" in str(facts):
        facts = {"schema": {**known["schema"], **facts["schema"]}}
    write(tmp_path / "m.skops", {**saved, "kernelkin.json": json.dumps({**known, **facts}).encode()})
    with pytest.raises(ModelFileError, match=message):
        load_model(tmp_path / "m.skops")


def test_a_schema_of_another_model(saved, tmp_path):
    known = json.loads(saved["kernelkin.json"])
    known["schema"]["columns"].pop()
    write(tmp_path / "m.skops", {**saved, "kernelkin.json": json.dumps(known).encode()})
    with pytest.raises(ModelFileError, match="its table has 1 features, and its model was fitted to 3"):
        load_model(tmp_path / "m.skops")


def test_a_model_that_does_not_say_what_it_was_fitted_to(saved, tmp_path):
    tree = json.loads(saved["schema.json"])
    del tree["content"]["content"]["n_features_in_"]
    write(tmp_path / "m.skops", {**saved, "schema.json": json.dumps(tree).encode()})
    with pytest.raises(ModelFileError, match="its model was fitted to None"):
        load_model(tmp_path / "m.skops")


def test_a_score_that_was_changed_by_hand_is_noticed(saved, tmp_path):
    known = json.loads(saved["kernelkin.json"])
    known["about"]["scores"] = [0.99]
    with zipfile.ZipFile(tmp_path / "m.skops", "w") as archive:
        for name, part in {**saved, "kernelkin.json": json.dumps(known)}.items():
            archive.writestr(name, part)
    with pytest.raises(ModelFileError, match="changed after it was saved"):
        load_model(tmp_path / "m.skops")


PLAIN = "a,b,c\n1,2,x\n3,4,y\n"
READ = {
    "a mark of the byte order": b"\xef\xbb\xbf" + PLAIN.encode(),
    "ends of lines of all kinds": b"a,b,c\r1,2,x\r\n3,4,y\n",
    "empty lines": b"\na,b,c\n\n1,2,x\n\n\n3,4,y",
    "quotes": b'"a","b",c\n"1",2,"x"\n3,"4",y\n',
    "an empty field at the end of each row": b"a,b,c\n1,2,x,\n3,4,y,\n",
}
REFUSED = {
    "nothing": (b"", "is empty"),
    "only a header": (b"a,b\n", "has no rows"),
    "one column": (b"a\n1\n", "one column"),
    "rows longer than the header": (b"a,b\n1,2,3\n4,5,6\n", "more fields than its header"),
    "a row longer than the others": (b"a,b\n1,2\n4,5,6\n", "Expected 2 fields in line 3, saw 3"),
    "a column twice": (b"a,b,a\n1,2,3\n", "the column 'a' twice"),
    "a quote that is not closed": (b'a,b\n1,"2\n3,4\n', "is not a table"),
    "a quote that is not closed in the header": (b'"a,b\n1,2\n' + b"3,4\n" * 50_000, "is not a table"),
    "UTF-16": (PLAIN.encode("utf-16"), "not text in UTF-8"),
    "Latin-1": ("a,b\ncaf\u00e9,2\n".encode("latin-1"), "not text in UTF-8"),
}


@pytest.mark.parametrize("name", READ)
def test_tables_that_differ_in_form_alone(tmp_path, name):
    (tmp_path / "t.csv").write_bytes(READ[name])
    whole = read_table(str(tmp_path / "t.csv"))
    pd.testing.assert_frame_equal(whole, pd.DataFrame({"a": [1, 3], "b": [2, 4], "c": ["x", "y"]}))
    pieces = pd.concat(read_pieces(str(tmp_path / "t.csv"), 1))
    assert pieces.to_numpy().tolist() == [["1", "2", "x"], ["3", "4", "y"]]


@pytest.mark.parametrize("name", REFUSED)
def test_tables_that_are_none(tmp_path, name):
    content, message = REFUSED[name]
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(str(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["1e999", "-inf", "1e308", "twelve"])
def test_what_is_no_number_is_named(tmp_path, capsys, text):
    rows = [f"{'ab'[i % 2]},{i}.5,{i * 7 % 10}.25" for i in range(20)]
    rows[3] = f"b,3.5,{text}"
    (tmp_path / "t.csv").write_text("\n".join(["task,x,y", *rows]))
    argv = ["fit", str(tmp_path / "t.csv"), "--task", "task", "--target", "y", "--regression"]
    assert cli.main([*argv, "-o", str(tmp_path / "m.skops")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("kernelkin: error: ") and error.count("\n") == 1 and "'y'" in error
    assert not (tmp_path / "m.skops").exists()


def test_tiny_numbers_keep_their_scale():
    from kernelkin.tables.schema import TableSchema

    frame = pd.DataFrame(
        {"t": ["a", "b"] * 2, "x": np.array([1.0, 2, 3, 5]) * 1e-200, "y": [1e-180, 3e-180, 2e-180, 0]}
    )
    schema = TableSchema.fit(frame, "t", "y", regression=True)
    np.testing.assert_allclose(schema.encode(frame).std(), 1.0)
    np.testing.assert_allclose(schema.targets(frame).std(), 1.0)
