"""Batches of events as columns: values as tagged numbers, batches merged in the order of consumption."""
