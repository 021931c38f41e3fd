"""ToxCast: 617 assays, 8,579 molecules, seven labels of ten missing."""

from __future__ import annotations

from .assay_data import RANDOM
from .assays import Extent, protocol
from .protocol import Goal

# A fit for each of 617 assays takes long: these models have two runs and are compared on 60 assays.
EXTENT = Extent(runs=2, assays=60, costs=(0.03,), learned=False)
GOALS = (Goal(RANDOM, 0.742, "Weave, MoleculeNet"),)
PROTOCOL = protocol("toxcast", "ToxCast: activity in 617 assays", EXTENT, GOALS)
