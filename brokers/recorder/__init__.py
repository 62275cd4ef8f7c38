"""The recorder: what guaranteed detection would consume, written into a history (docs/history.md)."""
