"""Cutting patterns into sub-patterns that detectors of their own detect, so that the meaning stays."""
