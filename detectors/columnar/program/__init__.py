"""Compiler of the columnar engine: automata to records, indexes and condition code, during operation."""
