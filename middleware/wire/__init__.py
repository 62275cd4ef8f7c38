"""Wire format: frames of events, directory and administration messages, topics (design, section 4)."""
