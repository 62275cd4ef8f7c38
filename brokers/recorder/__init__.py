"""The recorder: what guaranteed detection would consume, written into a history (docs/how-to/history.md)."""
