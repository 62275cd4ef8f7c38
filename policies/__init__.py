"""Policies of distced: detection (when an event may be used), distribution (where detectors are placed), topology."""
