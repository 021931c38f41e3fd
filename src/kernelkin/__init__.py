"""Multi-task multiple kernel learning with a certificate of optimality."""

__version__ = "0.1.0"
