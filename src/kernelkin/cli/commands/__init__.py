"""The commands that work on a user's table: one module for each, and what they share."""
