"""Describable sets and the expressions they filter by: what a pattern's atoms name."""
