"""Verbs of this package: `explain`, `test`, `topology`."""
