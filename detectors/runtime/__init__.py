"""Mobile detectors at run time: detector, detection policy interface, engines, choice and switch of the engine."""
