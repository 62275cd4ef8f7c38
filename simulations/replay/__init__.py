"""Replay of patterns over a history, in parallel on Spark: results of guaranteed detection (docs/how-to/replay.md)."""
