"""Benchmarks: each measures distced against a baseline in the same run, and gives ratios."""
