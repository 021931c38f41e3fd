"""Tables of mixed columns: what becomes a feature, a task or a target, and the files they are read from."""

from .encoder import TableEncoder
from .schema import TableSchema

__all__ = ["TableEncoder", "TableSchema"]
