"""Verbs of this package: `check`, `run`; views of patterns for `explain`."""
