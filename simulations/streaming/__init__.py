"""Patterns over streaming DataFrames of Spark (docs/how-to/streaming.md)."""

from distced.simulations.streaming.columns import rejected_rows
from distced.simulations.streaming.stream import detect_stream

__all__ = ["detect_stream", "rejected_rows"]
