"""Recorded events: reading them from files and tables, and writing them (docs/how-to/mappings.md)."""

from distced.middleware.event_files.reader import REJECTED_KEPT, EventReader, events_of_table, in_order, read_events
from distced.middleware.event_files.writer import json_line, write_events

__all__ = ["REJECTED_KEPT", "EventReader", "events_of_table", "in_order", "json_line", "read_events", "write_events"]
