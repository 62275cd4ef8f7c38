"""Broker node, sans-I/O: admission, placement, planning, hosting, the path of events, migration, replication."""
