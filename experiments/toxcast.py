"""ToxCast: 617 assays, 8,579 molecules, seven labels of ten missing."""

from __future__ import annotations

from .assay_data import RANDOM
from .assays import Extent, protocol
from .protocol import Goal

# A fit for each of 617 assays takes long: models that make one are compared on 60 assays. Weights of shared parts are
# not learned, which would take about ten times as long.
EXTENT = Extent(runs=3, long=2, extra=0, assays=60, learned=False)
GOALS = (Goal(RANDOM, 0.716, "graph convolution of DeepChem on another random split of all 617 assays"),)
PROTOCOL = protocol("toxcast", "ToxCast: activity in 617 assays", EXTENT, GOALS)
