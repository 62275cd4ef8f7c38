"""Facts and pictures of a pattern: the output of `distced check` and `distced explain`."""
