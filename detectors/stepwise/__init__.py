"""The stepwise engine: one event at a time, in plain Python; the live path, and the reference to read."""
