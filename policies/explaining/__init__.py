"""Preview of a distribution policy: placement of patterns in a described deployment, for `distced explain --policy`."""
