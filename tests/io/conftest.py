import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest

from kernelkin import MKMTRLRegressor, TableSchema, linear_kernels, load_model, save_model
from kernelkin.io.model_files import add_checksums

QUERIES = pd.DataFrame({"a": [0.5, -1.0], "b": ["p", "r"], "t": ["u", "v"]})


class ModelArchive:
    """The members of a saved model, to be changed and written again."""

    def __init__(self, content, path):
        self.content, self.path = content, path
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            self.members = {name: archive.read(name) for name in archive.namelist()}

    @property
    def tree(self):
        return json.loads(self.members["schema.json"])

    @property
    def metadata(self):
        return json.loads(self.members["kernelkin.json"])

    @property
    def arrays(self):
        return sorted(name for name in self.members if name.endswith(".npy"))

    def write(self, *, tree=None, metadata=None, checksums=True, **members):
        """Write the archive with these changes; with checksums that match the new contents, as an attacker would."""
        members = {**self.members, **members}
        if tree is not None:
            members["schema.json"] = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
        known = self.metadata if metadata is None else metadata
        del members["kernelkin.json"]
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, member in members.items():
                archive.writestr(name, member)
            if checksums and isinstance(known, dict):
                known = add_checksums(archive, known)
            archive.writestr("kernelkin.json", json.dumps(known))

    def load(self):
        return load_model(self.path)


@pytest.fixture(scope="session")
def saved_content(tmp_path_factory):
    """A small model of a table, as bytes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=12), "b": rng.choice(["p", "q"], 12), "t": np.repeat(["u", "v"], 6)})
    frame["y"] = frame.a + (frame.b == "p")
    schema = TableSchema.fit(frame, "t", "y", regression=True)
    model = MKMTRLRegressor([*linear_kernels(per_feature=True), "laplacian"])
    model.fit(schema.encode(frame), schema.targets(frame), tasks=schema.tasks(frame))
    model.random_state_ = np.random.RandomState(0)
    path = tmp_path_factory.mktemp("saved") / "model.skops"
    save_model(model, path, schema=schema, about={"scores": [0.5, None]})
    return path.read_bytes()


@pytest.fixture
def archive(saved_content, tmp_path):
    return ModelArchive(saved_content, tmp_path / "changed.skops")


@pytest.fixture(scope="session")
def queries():
    return QUERIES
