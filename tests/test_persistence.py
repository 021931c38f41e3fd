import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelkin
from kernelkin import (
    AverageClassifier,
    LassoRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    TwoStageMKMTRLRegressor,
    gaussian_kernels,
    linear_kernels,
    load_model,
    save_model,
)
from kernelkin.exceptions import ModelFileError
from kernelkin.model_files import FORMAT, sign
from kernelkin.model_selection import MKMTRLRegressorCV, MultiTaskCV
from kernelkin.persistence import trusted_types
from kernelkin.tables.schema import TableSchema

rng = np.random.default_rng(0)
X, TASKS = rng.normal(size=(60, 3)), np.repeat(["a", "b", "c"], 20)
Y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)

MODELS = {
    "coupled": MKMTRLRegressor(couplings="common"),
    "groups": MKMTRLRegressor(couplings={"region": ["n", "n", "s"]}, prior=np.eye(3)),
    "kernels of all kinds": MKMTRLRegressor(
        ["laplacian", "poly", linear_kernels(per_feature=True)], normalize="center"
    ),
    "some columns": MKMTRLRegressor(gaussian_kernels(1, columns=slice(0, 2)), normalize="cosine"),
    "epsilon": MKMTRLRegressor(loss="epsilon_insensitive"),
    "searched": MKMTRLRegressorCV(grid={"mu": [0.1, 1.0]}, cv=2, random_state=0),
    "search": MultiTaskCV(MKMTRLRegressor(), {"mu": [0.1, 1.0]}, cv=2, random_state=0),
    "two stages": TwoStageMKMTRLRegressor(n_rounds=200, random_state=0),
    "linear": LassoRegressor(),
}


@pytest.fixture(scope="module")
def model():
    return MKMTRLRegressor().fit(X, Y, tasks=TASKS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_predicts_what_the_saved_one_did(name, path):
    model = MODELS[name].fit(X, Y, tasks=TASKS)
    save_model(model, path)
    loaded = load_model(path).model
    assert type(loaded) is type(model)
    assert_array_equal(loaded.predict(X, tasks=TASKS), model.predict(X, tasks=TASKS))


@pytest.mark.parametrize("classifier", [MKMTRLClassifier(), AverageClassifier(loss="squared")])
def test_classes_come_back(classifier, path):
    y = np.where(Y > 0, "yes", "no")
    save_model(classifier.fit(X, y, tasks=TASKS), path)
    assert_array_equal(load_model(path).model.predict(X, tasks=TASKS), classifier.predict(X, tasks=TASKS))


def test_a_model_of_tables_comes_back(path):
    frame = pd.DataFrame(X, columns=["p", "q", "r"])
    wide = pd.DataFrame({"first": Y, "second": X[:, 1]})
    model = MKMTRLRegressor().fit(frame, wide)
    save_model(model, path)
    loaded = load_model(path).model
    assert loaded.tasks_.tolist() == ["first", "second"]
    assert_array_equal(loaded.predict(frame), model.predict(frame))
    long = MKMTRLRegressor(task_column="unit").fit(frame.assign(unit=TASKS), Y)
    save_model(long, path)
    assert_array_equal(load_model(path).model.predict(frame.assign(unit=TASKS)), long.predict(frame.assign(unit=TASKS)))


def test_every_estimator_of_the_registry_is_trusted():
    named = {f"{e.__module__}.{e.__qualname__}" for model in kernelkin.models() for e in model.estimators}
    assert named <= set(trusted_types())
    assert all(name.startswith(("kernelkin.", "sklearn.metrics.pairwise.")) for name in trusted_types())


def test_version_schema_and_more_come_back(path):
    frame = pd.DataFrame(X, columns=["p", "q", "r"]).assign(unit=TASKS, y=Y, colour=np.tile(["red", "blue"], 30))
    schema = TableSchema.fit(frame, "unit", "y", regression=True)
    model = MKMTRLRegressor().fit(schema.encode(frame), Y, tasks=TASKS)
    save_model(model, path, schema=schema, about={"rows": np.int64(60), "scores": np.array([0.5])})
    saved = load_model(path)
    assert saved.version == kernelkin.__version__
    assert saved.schema == schema
    assert saved.about == {"rows": 60, "scores": [0.5]}


def test_a_table_is_predicted_in_its_own_units(path):
    frame = pd.DataFrame(X, columns=["p", "q", "r"]).assign(unit=TASKS, y=1000 + 50 * Y)
    schema = TableSchema.fit(frame, "unit", "y", regression=True)
    model = MKMTRLRegressor(C=100).fit(schema.encode(frame), schema.targets(frame), tasks=schema.tasks(frame))
    save_model(model, path, schema=schema)
    predicted = load_model(path).predict(frame[["r", "unit", "q", "p"]])
    assert np.corrcoef(predicted, frame.y)[0, 1] > 0.9
    assert abs(predicted.mean() - frame.y.mean()) < 5


def test_without_a_schema_a_table_is_not_predicted(model, path):
    save_model(model, path)
    with pytest.raises(ValueError, match="saved without the schema"):
        load_model(path).predict(pd.DataFrame(X))


def own_kernel(A, B):
    return A @ B.T


def test_code_of_the_user_is_refused_when_saving(path):
    model = MKMTRLRegressor([own_kernel]).fit(X, Y, tasks=TASKS)
    with pytest.raises(ValueError, match=r"own_kernel.*code of yours"):
        save_model(model, path)
    assert not path.exists()


def test_a_failed_save_leaves_the_old_file(model, path, monkeypatch):
    save_model(model, path)
    before = path.read_bytes()

    def full(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        save_model(model, path, about={"new": True})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def rewrite(path, facts=None, **members):
    """The same file with other members; the digest is that of the new contents unless the facts have one."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents.update(members)
    known = {**json.loads(contents.pop("kernelkin.json")), **(facts or {})}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
        known = {**sign(archive, known), **(facts or {})}
        archive.writestr("kernelkin.json", json.dumps(known))


def test_a_file_of_a_later_format_says_which_version_to_install(model, path):
    save_model(model, path)
    rewrite(path, {"format": FORMAT + 1, "kernelkin": "9.1"})
    with pytest.raises(
        ModelFileError, match=r"saved by kernelkin 9\.1 in format 2; .* install kernelkin 9\.1 or later"
    ):
        load_model(path)


def test_a_file_of_a_format_that_is_no_longer_read_says_so(model, path):
    save_model(model, path)
    rewrite(path, {"format": 0, "kernelkin": "0.0.3"})
    with pytest.raises(ModelFileError, match=r"in format 0; .* fit it again, or load it with kernelkin 0\.0\.3"):
        load_model(path)


def test_a_model_from_before_a_parameter_was_added_gets_its_default(model, path):
    save_model(model, path)
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("schema.json"))
    del tree["content"]["content"]["min_rank"]
    rewrite(path, **{"schema.json": json.dumps(tree)})
    loaded = load_model(path).model
    assert loaded.get_params()["min_rank"] == 1.0
    assert_array_equal(loaded.predict(X, tasks=TASKS), model.predict(X, tasks=TASKS))


def test_a_class_that_is_gone_is_named(model, path):
    save_model(model, path)
    with zipfile.ZipFile(path) as archive:
        text = archive.read("schema.json").decode().replace("TraceScaling", "NoSuchScaling")
    rewrite(path, {"kernelkin": "0.0.9"}, **{"schema.json": text})
    with pytest.raises(ModelFileError, match="NoSuchScaling"):
        load_model(path)


def test_types_that_are_no_part_of_a_model_are_named_and_not_made(model, path):
    save_model(model, path)
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("schema.json"))
    content = tree["content"]["content"]
    content["callback"] = {
        "__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "__id__": 1, "content": {
            "module_path": "os", "function": "system"}}  # fmt: skip
    rewrite(path, **{"schema.json": json.dumps(tree)})
    with pytest.raises(ModelFileError, match=r"no part of a model, and is not loaded: '(os|posix)\.system'"):
        load_model(path)


def test_damage_is_noticed(model, path):
    save_model(model, path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelFileError, match="cut short or damaged"):
        load_model(path)
    save_model(model, path)
    rewrite(path, {"digest": "0" * 64})
    with pytest.raises(ModelFileError, match="changed after it was saved"):
        load_model(path)


def test_a_flipped_bit_is_noticed(model, path):
    save_model(model, path)
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        load_model(path)


def test_foreign_files(model, path):
    import skops.io

    path.write_text("a,b\n1,2\n")
    with pytest.raises(ModelFileError, match="is not a saved model"):
        load_model(path)
    skops.io.dump(model, path)
    with pytest.raises(ModelFileError, match="a skops file, but not one that kernelkin saved"):
        load_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ModelFileError, match=r"model\.skops is not a saved model"):
        load_model(path)


def test_an_unfitted_model_is_refused(path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        save_model(MKMTRLRegressor(), path)


OLD = sorted((Path(__file__).parent / "data" / "models").glob("*.skops"))


# Linear models hold those of scikit-learn, which warns of any version but the one that saved them.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_a_model_that_an_earlier_version_saved_still_predicts_the_same(path, monkeypatch):
    monkeypatch.setattr(kernelkin, "__version__", "9.1")
    saved = load_model(path)
    assert path.stem.endswith(f"-{saved.version}")
    said, expected = saved.predict(pd.DataFrame(saved.about["table"])), saved.about["predictions"]
    assert_array_equal(said, expected) if said.dtype.kind in "OTU" else assert_allclose(said, expected, rtol=1e-9)


def test_every_release_has_left_models():
    assert {path.stem.rpartition("-")[2] for path in OLD} >= {"0.1.0"}


def test_an_earlier_model_that_cannot_be_read_says_by_what_it_was_saved_and_why(path):
    path.write_bytes(OLD[0].read_bytes())
    with zipfile.ZipFile(path) as archive:
        text = archive.read("schema.json").decode()
    rewrite(path, **{"schema.json": text.replace('"__loader__": "NdArrayNode"', '"__loader__": "NoSuchNode"')})
    with pytest.raises(
        ModelFileError, match=r"saved by kernelkin 0\.1\.0 and cannot be read by kernelkin .*NoSuchNode"
    ):
        load_model(path)
