import pickle
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

import kernelkin
from kernelkin import (
    MKMTRLClassifier,
    MKMTRLRegressor,
    TwoStageMKMTRLRegressor,
    gaussian_kernels,
    linear_kernels,
    load_model,
    save_model,
)
from kernelkin.exceptions import ModelFileError
from kernelkin.paper import FESRegressor, MRCERegressor, MultiTaskKernelRegressor
from kernelkin.paper.model_selection import MKMTRLRegressorCV, MultiTaskCV
from kernelkin.paper.penalties import LpPenalty
from kernelkin.paper.solvers import Joint
from kernelkin.storage.model_files import FORMAT
from kernelkin.storage.values import is_storable
from kernelkin.tables import TableSchema

rng = np.random.default_rng(0)
X, TASKS = rng.normal(size=(24, 2)), np.repeat(["a", "b"], 12)
Y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=24)
WIDE = np.column_stack([Y, X[:, 1]])
FRAME = pd.DataFrame(X, columns=["p", "q"])
MULTIVARIATE = (MRCERegressor, FESRegressor)
GRID = {"mu": [0.1, 1.0]}
QUICK = {"n_rounds": 50, "random_state": 0}
QUICK_SEARCH = {"cv": 2, "random_state": 0}


def quick(estimator):
    name = estimator.__name__
    model = estimator(**(QUICK if "TwoStage" in name else QUICK_SEARCH if name.startswith("Kin") else {}))
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


# Besides every model with its default parameters: classes, all kinds of kernels, couplings, searches, random states.
MODELS = {
    **{model.estimators[-1].__name__: quick(model.estimators[-1]) for model in kernelkin.all_models()},
    "KinClassifier": quick(kernelkin.KinClassifier),
    "MTRLClassifier": kernelkin.paper.MTRLClassifier(),
    "TwoStageMKMTRLClassifier": quick(kernelkin.TwoStageMKMTRLClassifier),
    "couplings": MKMTRLRegressor(couplings={"region": ["n", "s"]}, prior=np.eye(2)),
    "kernels by name": MKMTRLRegressor(
        ["laplacian", rbf_kernel, *linear_kernels(per_feature=True)], normalize="center"
    ),
    "columns": MKMTRLRegressor(gaussian_kernels(1, columns=slice(0, 2)), normalize="cosine"),
    "epsilon-insensitive": MKMTRLRegressor(loss="epsilon_insensitive"),
    "ready search": MKMTRLRegressorCV(grid=GRID, cv=2, random_state=np.random.RandomState(0)),
    "search": MultiTaskCV(MKMTRLRegressor(), {**GRID, "kernels": ["linear", [rbf_kernel]]}, cv=2, random_state=0),
    "stream": TwoStageMKMTRLRegressor(n_rounds=50, random_state=np.random.RandomState(1), normalize="cosine"),
    "composed": MultiTaskKernelRegressor(penalty=LpPenalty(2.0), solver=Joint()),
    "class weights": MKMTRLClassifier(class_weight={"no": 1.0, "yes": 2.0}),
}
LOAD_ALL = """
import sys, numpy as np
from pathlib import Path
from kernelkin import load_model
folder = Path(sys.argv[1])
given = np.load(folder / "queries.npz")
np.savez(folder / "predictions.npz", **{
    path.stem: load_model(path).predict(given["X"], **({} if path.stem in given["wide"] else {"tasks": given["tasks"]}))
    for path in folder.glob("*.kin")
})
"""


def fit(name, model):
    if isinstance(model, MULTIVARIATE):
        return model.fit(X, WIDE)
    return model.fit(X, np.where(Y > 0, "yes", "no") if "class" in name.lower() else Y, tasks=TASKS)


def test_all_models_predict_the_same_bits_in_another_process(tmp_path):
    here, wide = {}, []
    for number, (name, model) in enumerate(MODELS.items()):
        fit(name, model)
        wide += [str(number)] if isinstance(model, MULTIVARIATE) else []
        here[name] = model.predict(X, **({} if isinstance(model, MULTIVARIATE) else {"tasks": TASKS}))
        save_model(model, tmp_path / f"{number}.kin")
    np.savez(tmp_path / "queries.npz", X=X, tasks=TASKS, wide=wide)
    subprocess.run([sys.executable, "-c", LOAD_ALL, str(tmp_path)], check=True)
    with np.load(tmp_path / "predictions.npz") as found:
        there = {name: found[str(number)] for number, name in enumerate(MODELS)}
    assert [name for name in MODELS if not np.array_equal(here[name], there[name])] == []
    assert [name for name in MODELS if len(np.unique(here[name])) == 1] == []


@pytest.mark.parametrize("wide", [False, True])
def test_files_of_kin_hold_no_matrix_of_all_rows(wide, tmp_path):
    n = 120
    columns = np.random.default_rng(1).normal(size=(n, 2))
    given = (columns, columns[:, :2] ** 2) if wide else (columns, columns[:, 0] ** 2, np.arange(n) % 6)
    model = kernelkin.KinRegressor(cv=2, random_state=0).fit(*given)
    model.predict_interval(columns[:2], None if wide else [0, 1])  # computes what files leave out
    save_model(model, tmp_path / "model.kin")
    assert (tmp_path / "model.kin").stat().st_size < 8 * n * n
    assert len(pickle.dumps(model)) < 8 * n * n


@pytest.fixture(scope="module")
def model():
    return MKMTRLRegressor().fit(X, Y, tasks=TASKS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.kin"


def test_only_classes_of_known_packages_are_storable():
    from sklearn.linear_model import Lasso
    from sklearn.pipeline import Pipeline

    from kernelkin.progress import Progress

    estimators = [estimator for model in kernelkin.all_models() for estimator in model.estimators]
    assert all(map(is_storable, [*estimators, MultiTaskKernelRegressor, LpPenalty, Lasso, TableSchema]))
    assert not any(map(is_storable, [Pipeline, Progress, OwnKernel, dict, type, subprocess.Popen]))


def test_what_only_a_fit_uses_is_left_out(path):
    fitted = MKMTRLRegressor(callback=print).fit(X, Y, tasks=TASKS)
    save_model(fitted, path)
    assert load_model(path).model.callback is None and fitted.callback is print
    seeded = TwoStageMKMTRLRegressor(n_rounds=50, random_state=np.random.RandomState(0)).fit(X, Y, tasks=TASKS)
    save_model(seeded, path)
    assert load_model(path).model.random_state is None


def table():
    return FRAME.assign(unit=TASKS, y=1000 + 50 * Y, colour=np.tile(["red", "blue"], 12))


def test_version_schema_and_notes_are_kept(path):
    frame = table()
    schema = TableSchema.fit(frame, "unit", "y", regression=True)
    fitted = MKMTRLRegressor().fit(schema.encode(frame), schema.targets(frame), tasks=schema.tasks(frame))
    save_model(fitted, path, schema=schema, about={"rows": np.int64(60), "scores": np.array([0.5])})
    saved = load_model(path)
    assert (saved.version, saved.schema.encoder.describe()) == (kernelkin.__version__, schema.encoder.describe())
    np.testing.assert_equal(saved.about, {"rows": np.int64(60), "scores": np.array([0.5])})
    expected = schema.restore(fitted.predict(schema.encode(frame), tasks=TASKS))
    assert_array_equal(saved.predict(frame[["colour", "q", "unit", "p"]]), expected)


class TestPredictWithoutSchema:
    """A model that was saved from Python predicts what the estimator predicts."""

    def test_arrays_and_frames_with_tasks(self, path):
        fitted = MKMTRLRegressor().fit(FRAME, Y, tasks=TASKS)
        save_model(fitted, path)
        expected = fitted.predict(FRAME, tasks=TASKS)
        assert_array_equal(load_model(path).predict(FRAME, tasks=TASKS), expected)
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            assert_array_equal(load_model(path).predict(X, tasks=TASKS), expected)

    def test_frame_with_task_column(self, path):
        frame = FRAME.assign(unit=TASKS)
        fitted = MKMTRLRegressor(task_column="unit").fit(frame, Y)
        save_model(fitted, path)
        assert_array_equal(load_model(path).predict(frame), fitted.predict(frame))

    def test_wide_targets_are_predicted_by_column(self, path):
        fitted = MKMTRLRegressor().fit(FRAME, pd.DataFrame(WIDE, columns=["first", "second"]))
        save_model(fitted, path)
        saved = load_model(path)
        assert saved.model.tasks_.tolist() == ["first", "second"]
        assert_array_equal(saved.predict(FRAME), fitted.predict(FRAME))

    @pytest.mark.parametrize("frame", [FRAME, FRAME.assign(unit=TASKS)])
    def test_errors_are_those_of_the_estimator(self, path, frame):
        fitted = MKMTRLRegressor().fit(FRAME, Y, tasks=TASKS)
        save_model(fitted, path)
        with pytest.raises(ValueError) as expected:
            fitted.predict(frame)
        with pytest.raises(ValueError) as found:
            load_model(path).predict(frame)
        assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("library", ["polars", "pyarrow", "dict"])
def test_tables_of_any_library_are_predicted(saved, queries, library):
    saved = saved.write().load()
    columns = queries.to_dict("list")
    if library != "dict":
        module = pytest.importorskip(library)
        columns = module.DataFrame(columns) if library == "polars" else module.table(columns)
    assert_array_equal(saved.predict(columns), saved.predict(queries))


def test_with_a_schema_only_tables_are_predicted(saved, queries):
    saved = saved.write().load()
    with pytest.raises(TypeError, match=r"fitted on a table: .* with the columns 'a', 'b'; got ndarray"):
        saved.predict(X)
    with pytest.raises(ValueError, match="reads the tasks from the column 't': leave out `tasks`"):
        saved.predict(queries, tasks=["u", "v"])
    with pytest.raises(ValueError, match="column is missing: 'b'"):
        saved.predict(queries[["a", "t"]])


def own_kernel(A, B):
    return A @ B.T


class OwnKernel:
    def __call__(self, A, B):
        return A @ B.T


@pytest.mark.parametrize("kernel", [own_kernel, OwnKernel()], ids=["function", "object"])
def test_code_of_the_user_is_refused_when_saving(path, kernel):
    fitted = MKMTRLRegressor([kernel]).fit(X, Y, tasks=TASKS)
    with pytest.raises(ValueError, match=r"model\.kernels\[0\] is .*no functions or classes of your own"):
        save_model(fitted, path)
    assert not path.exists()


def test_an_unfitted_model_is_refused(path):
    with pytest.raises(NotFittedError, match="This MKMTRLRegressor instance is not fitted yet"):
        save_model(MKMTRLRegressor(), path)


def test_another_format_says_which_version_to_use(saved):
    other = re.sub(rb"format 1, kernelkin [^,]*", b"format 3, kernelkin 9.1", saved.content, count=1)
    saved.path.write_bytes(other)
    message = rf"saved by kernelkin 9\.1 in format 3; .* reads format {FORMAT}: load it with kernelkin 9\.1, or fit"
    with pytest.raises(ModelFileError, match=message):
        saved.load()


def test_a_changed_score_is_noticed(saved):
    saved.path.write_bytes(saved.content.replace(b"[0.5,null]", b"[0.9,null]"))
    with pytest.raises(ModelFileError, match="its checksum does not match"):
        saved.load()


def test_the_parts_of_a_file_do_not_grow_with_the_number_of_columns(tmp_path):
    """A node for each column, kernel and task took minutes to write for gene data."""
    nodes = []
    for d in (20, 400):
        wide = np.random.default_rng(0).normal(size=(24, d))
        model = MKMTRLRegressor(gaussian_kernels([0.5, 2.0])).fit(wide, Y, tasks=TASKS)
        save_model(model, tmp_path / "m.kin")
        loaded = load_model(tmp_path / "m.kin").model
        assert loaded.kernels_ == model.kernels_
        assert_array_equal(loaded.predict(wide, tasks=TASKS), model.predict(wide, tasks=TASKS))
        nodes.append((tmp_path / "m.kin").read_bytes().count(b'"at"'))
    assert nodes[0] == nodes[1]


def test_a_model_of_several_groupings_is_saved(path):
    groups = {"task": TASKS, "half": np.tile(["x", "y"], len(TASKS) // 2)}
    model = kernelkin.KinRegressor().fit(X, Y, tasks=groups)
    save_model(model, path)
    assert_array_equal(load_model(path).model.predict(X, tasks=groups), model.predict(X, tasks=groups))


def test_matrices_and_labels_with_the_names_of_tasks_are_stored(tmp_path):
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(40, 2)), np.repeat(["a", "b", "c", "d"], 10)
    y, names = X[:, 0] + rng.normal(size=40), ["c", "a", "d", "b"]
    frame = pd.DataFrame(0.5 + 0.5 * np.eye(4) + 0.1 * np.outer([1, 2, 0, 0], [1, 2, 0, 0]), index=names, columns=names)
    region = pd.Series(["n", "s", "n", "s"], index=names)
    near = pd.DataFrame(np.kron(np.eye(2), np.ones((2, 2))), index=names, columns=names).iloc[:, ::-1]
    model = MKMTRLRegressor(prior=frame.iloc[::-1], couplings={"region": region, "near": near})
    expected = model.fit(X, y, tasks=tasks).predict(X, tasks=tasks)
    save_model(model, tmp_path / "m.kin")
    loaded = load_model(tmp_path / "m.kin").model
    np.testing.assert_array_equal(loaded.predict(X, tasks=tasks), expected)
    np.testing.assert_allclose(clone(loaded).fit(X, y, tasks=tasks).predict(X, tasks=tasks), expected, rtol=1e-9)
