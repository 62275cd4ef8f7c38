"""Verbs of this package: `broker`, `subscribe`, `nodes`, `detectors`, `move`, `policy`, `record`."""
