"""Distribution policies: decomposition of patterns, reuse of detectors, placement."""
