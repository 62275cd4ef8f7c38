"""Recordings into history, and history into fewer files (docs/how-to/ingest.md)."""
