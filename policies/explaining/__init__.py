"""What a distribution policy would do with patterns in a deployment that is described: `distced explain --policy`."""
