"""Mappings of public recordings, and patterns for the questions of their fields."""
