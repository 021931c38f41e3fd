"""Tox21: 12 assays of nuclear receptors and stress response, 7,823 molecules."""

from __future__ import annotations

from .assay_data import RANDOM
from .assays import Extent, protocol
from .protocol import Goal

GOALS = (Goal(RANDOM, 0.829, "graph convolution in MoleculeNet, on another random split"),)
PROTOCOL = protocol("tox21", "Tox21: activity in 12 assays", Extent(), GOALS)
