"""Scenarios of the simulated network: files, random scenarios, the run, its check and its outcome."""
