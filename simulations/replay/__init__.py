"""Replay: patterns over a history, parallel on Spark, with what guaranteed detection finds (docs/how-to/replay.md)."""
