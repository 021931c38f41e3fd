"""The drug-response problem: labels of drugs on cell lines with entries or cell lines left out."""

import os
from pathlib import Path

import numpy as np
import pytest

from kernelkin import MKMTRLRegressor

FILE = Path(os.environ.get("KERNELKIN_DATA", "")) / "drug_response.npz"
pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="needs drug_response.npz in KERNELKIN_DATA")


@pytest.fixture(scope="module")
def data():
    stored = np.load(FILE)
    # Rows are cell lines and tasks are drugs; four kernels of the cell lines keep the test short.
    cells = np.moveaxis(stored["cell_kernels"][:4], 0, 2)
    roots = np.sqrt(np.diagonal(stored["drug_kernels"], axis1=1, axis2=2))
    return cells, stored["response"].T, stored["drug_kernels"] / roots[:, :, np.newaxis] / roots[:, np.newaxis]


def fit(cells, response, kernels):
    model = MKMTRLRegressor(
        "precomputed",
        C=0.1,
        couplings={"common": "common"} | {f"drug {i}": kernel for i, kernel in enumerate(kernels)},
        max_iter=10,
        tol=1e-2,
    )
    return model.fit(cells, response)


def error(predicted, truth):
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


def test_entries_that_were_left_out(data):
    cells, Y, kernels = data
    held = np.random.default_rng(0).random(Y.shape) < 0.2
    known = np.where(held, np.nan, Y)
    model = fit(cells, known, kernels)
    rows, columns = np.nanmean(known, axis=1, keepdims=True), np.nanmean(known, axis=0)
    best = error((rows + columns - np.nanmean(known))[held], Y[held])
    predicted, truth = model.predict(cells)[held], Y[held]
    assert error(predicted, truth) < 0.98 * min(best, error(np.broadcast_to(columns, Y.shape)[held], truth))
    ends = model.predict_interval(cells)[held]
    assert 0.85 < ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean() < 0.95


def test_cell_lines_that_were_left_out(data):
    cells, Y, kernels = data
    order = np.random.default_rng(1).permutation(124)
    train, test = np.sort(order[:99]), order[99:]
    model = fit(cells[np.ix_(train, train)], Y[train], kernels)
    predicted = model.predict(cells[np.ix_(test, train)])
    assert error(predicted, Y[test]) < error(np.broadcast_to(Y[train].mean(axis=0), Y[test].shape), Y[test])
