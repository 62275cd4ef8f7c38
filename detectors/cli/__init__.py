"""Verbs of this package: `check`, `run`, `test`."""
