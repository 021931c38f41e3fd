"""The commands that work on a user's own table: one module for each, and what they share."""
