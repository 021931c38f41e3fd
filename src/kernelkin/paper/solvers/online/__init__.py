"""The online solver: kernel weights and task relationship from pairs of rows, without Gram or T x T matrices.

It has a protocol of its own, since what it minimises is no `Problem`: rounds go in (`Rounds`), a state changes
(`OnlineState`), and kernel weights can be read at any time. `PairSource` draws rounds from a data set, `Stream` makes
them from rows as they come.
"""

from .pairs import PairCenter, PairSource, block_length
from .solver import Online, OnlineRun, OnlineState, Rounds
from .stream import Codes, Reservoirs, Stream, StreamSettings

__all__ = [
    "Codes",
    "Online",
    "OnlineRun",
    "OnlineState",
    "PairCenter",
    "PairSource",
    "Reservoirs",
    "Rounds",
    "Stream",
    "StreamSettings",
    "block_length",
]
