"""Gram matrices, as stacks and as operators."""
