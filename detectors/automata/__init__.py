"""Automata: model, construction from a pattern, drawing."""
