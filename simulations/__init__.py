"""Simulations of distced: simulated network, Active Office, replay and placement on Spark, ingest, benchmarks."""
