"""Conformance cases: the meaning of patterns, as data for every engine (design, section 5)."""
