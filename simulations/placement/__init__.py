"""Placement analysis: figures of patterns from a history, placements by policies, and the optimal placement."""
