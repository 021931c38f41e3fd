"""The protocol of a norm of functions: a convex term with a known conjugate."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class FunctionNorm(Protocol):
    """A convex function of the sizes x >= 0 of functions, homogeneous of degree two.

    The sizes are an array whose meaning each norm defines. Fenchel-Young: `value(x) + conjugate(v) >= <x, v>`, with
    equality for some x at every v.
    """

    name: ClassVar[str]

    def value(self, x: Array) -> float:
        """The term at sizes x >= 0."""
        ...

    def conjugate(self, v: Array) -> float:
        """Maximum over x >= 0 of <x, v> - value(x), for v >= 0."""
        ...
