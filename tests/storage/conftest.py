import json

import numpy as np
import pandas as pd
import pytest

from kernelkin import MKMTRLRegressor, linear_kernels, load_model, save_model
from kernelkin.storage.model_files import seal
from kernelkin.tables import TableSchema

QUERIES = pd.DataFrame({"a": [0.5, -1.0], "b": ["p", "r"], "t": ["u", "v"]})


class ModelContent:
    """A saved model, to be changed and written again with a checksum that is right, as an attacker would."""

    def __init__(self, content, path):
        self.content, self.path = content, path
        first, _, rest = content.partition(b"\n")
        n_text = int(first.split(b" bytes of JSON")[0].rpartition(b" ")[2])
        self.text, self.arrays = rest[:n_text], rest[n_text:]
        self.tree = json.loads(self.text)
        self.nodes = self.tree["nodes"]

    def node(self, kind, name=""):
        """The first node of this kind, or the object of a class that ends in this name."""
        return next(node for node in self.nodes if node[0] == kind and (not name or node[1].endswith(name)))

    def attribute(self, cls, name, value):
        """Give an attribute of the first object of a class another value."""
        for pair in self.node("object", cls)[2]:
            if pair[0] == name:
                pair[1] = value

    def write(self, text=None, arrays=None):
        text = json.dumps(self.tree).encode() if text is None else text
        self.path.write_bytes(seal(text, self.arrays if arrays is None else arrays))
        return self

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
    path = tmp_path_factory.mktemp("saved") / "model.kin"
    save_model(model, path, schema=schema, about={"scores": [0.5, None]})
    return path.read_bytes()


@pytest.fixture
def saved(saved_content, tmp_path):
    return ModelContent(saved_content, tmp_path / "changed.kin")


@pytest.fixture(scope="session")
def queries():
    return QUERIES
