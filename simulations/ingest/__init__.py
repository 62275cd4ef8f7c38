"""Recordings into history, and history into fewer files (docs/ingest.md)."""
