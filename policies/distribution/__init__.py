"""Distribution policies: what of a pattern is cut out, what is reused, and where detectors stand."""
