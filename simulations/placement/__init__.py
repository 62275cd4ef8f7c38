"""Placement analysis: what a history says of patterns, where policies put their detectors, and what would be best."""
