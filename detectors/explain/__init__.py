"""Patterns, automata and detector graphs in words: the views that drawings show and `--json` prints."""
