"""Broker nodes as Ray actors: placement on machines, supervision, restart."""
