"""Estimates of a detector that does not run yet: rates, selectivity, delays, costs."""
