"""Batch runs of patterns over recorded events in one process: runner, output, report."""
