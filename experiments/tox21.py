"""Tox21: 12 assays of nuclear receptors and stress response, 7,823 molecules."""

from __future__ import annotations

from .assay_data import RANDOM
from .assays import Extent, protocol
from .protocol import Goal

# The largest C of the default range was chosen in almost all runs.
EXTENT = Extent(own=(0.3, 1.0, 3.0))
GOALS = (Goal(RANDOM, 0.829, "graph convolution in MoleculeNet, on another random split"),)
PROTOCOL = protocol("tox21", "Tox21: activity in 12 assays", EXTENT, GOALS)
