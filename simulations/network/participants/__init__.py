"""Participants of the simulated network: broker nodes, clients, publishers, subscribers, administrator."""
