"""Checks of the doctor: pure functions of facts, which give findings with a remedy each."""
