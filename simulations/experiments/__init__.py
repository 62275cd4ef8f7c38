"""Experiments with distribution policies, on the simulated network."""
