"""The core language: its tree, and the way from text to a checked tree and back."""
