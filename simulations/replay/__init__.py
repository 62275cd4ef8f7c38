"""Replay: patterns over a history, in parallel on Spark, with what guaranteed live detection finds (docs/replay.md)."""
