"""Event history: published events in Parquet files by day and type (docs/how-to/history.md)."""

from distced.middleware.history.history import History, events_of_history
from distced.middleware.history.history_file import Problem
from distced.middleware.history.writer import HistoryWriter

__all__ = ["History", "HistoryWriter", "Problem", "events_of_history"]
