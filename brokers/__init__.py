"""distced: see README.md for what the package holds."""
