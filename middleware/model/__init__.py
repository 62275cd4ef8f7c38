"""Values that every package shares: events, event types, timestamps, errors, the clock. No I/O."""
