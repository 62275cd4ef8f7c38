"""Detection of patterns in distced: language, automata, cutting, engines, and detectors with their inputs."""
