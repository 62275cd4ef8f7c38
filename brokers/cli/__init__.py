"""Verbs of this package: `broker`, `subscribe`, `nodes`, `detectors`, `move`, `story`, `policy`, `record`."""
