"""The `distced` command and the verbs of this package: output, logs, options, signals, `publish`, `history`."""
