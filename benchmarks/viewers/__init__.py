"""Viewers of sessions, measured beside sessiontree: see `python -m benchmarks.viewers --help`."""
