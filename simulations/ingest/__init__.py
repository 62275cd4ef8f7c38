"""Ingestion of recordings into a history, and compaction of its files (docs/how-to/ingest.md)."""
