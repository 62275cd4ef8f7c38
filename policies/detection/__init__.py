"""Detection policies: when an event may be consumed."""
