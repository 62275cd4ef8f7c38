"""Results of the columnar engine: matches as positions, and the store of events they refer to."""
