"""Reports of experiments: sections, statistics, drawing, the page."""
