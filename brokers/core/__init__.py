"""Sans-I/O parts that every participant shares: directory, barriers, rendezvous hashing, routes, effects."""
