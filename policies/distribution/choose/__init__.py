"""Choice of a distribution policy: alternatives, ranking, suggestion, reconsideration, reasons."""
