"""Broker nodes of distced: hosting, placement and moves of detectors, recorders, bridges, and their drivers."""
