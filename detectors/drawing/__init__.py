"""Views of patterns and their automata as text, SVG, DOT and JSON, all from one view (`view.py`)."""
