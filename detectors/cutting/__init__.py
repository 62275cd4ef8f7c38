"""Cuts of patterns into sub-patterns for detectors of their own, with unchanged meaning."""
