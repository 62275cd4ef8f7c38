"""Topologies shown: as text, as a picture, for Graphviz, as JSON."""
