"""The core language: its syntax tree, parser, checker and printer."""
