"""Encode tables with mixed column types as features, tasks and targets, and read them from files."""

from .encoder import TableEncoder
from .schema import TableSchema

__all__ = ["TableEncoder", "TableSchema"]
