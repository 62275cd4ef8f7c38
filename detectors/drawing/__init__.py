"""Diagrams and text for a terminal, from the views of `detectors.explain`."""
