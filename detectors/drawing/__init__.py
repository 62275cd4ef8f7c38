"""Patterns and their automata made visible: as text, SVG, DOT and JSON, all from one view (`view.py`)."""
