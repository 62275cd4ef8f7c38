"""Mappings of recordings that others made, and the patterns people in these fields would ask for."""
