"""Helpers of the tests: oracle, random patterns and streams, virtual nodes, comparison, shrinking."""
