"""Canonical form of patterns: one tree and one id for all patterns known to be equivalent."""
