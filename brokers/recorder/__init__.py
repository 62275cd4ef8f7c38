"""Recorder of the events that guaranteed detection would consume, into a history (docs/how-to/history.md)."""
