"""Read-only views of a deployment: nodes, detectors, sites, activity."""
