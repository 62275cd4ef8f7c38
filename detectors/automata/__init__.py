"""Automata: what they are, how a pattern becomes one, and how one is drawn."""
