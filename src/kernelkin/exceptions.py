"""The errors and warnings that are ours; everything else is scikit-learn's or Python's own."""


class CollapseWarning(UserWarning):
    """The relationship penalty has put all tasks on one mix of kernels, so the relationship says nothing."""


class GramMemoryError(MemoryError):
    """The Gram matrices of a fit would not fit into memory."""
