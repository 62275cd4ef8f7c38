"""The columnar engine: the automata of the stepwise engine, run over batches of events as arrays by a compiled loop."""
