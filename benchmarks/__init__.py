"""Benchmarks: ours and each peer side by side. See `python -m benchmarks --help`."""
