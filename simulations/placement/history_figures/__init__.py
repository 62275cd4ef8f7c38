"""Figures of a history: counts of streams and detectors, rates, heartbeat rates."""
