"""Highlighting of patterns: rules by the tables of words, for Pygments and for editors."""
