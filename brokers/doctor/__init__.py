"""Faults of an installation and of a running deployment: facts are collected, and checks of them give findings."""
