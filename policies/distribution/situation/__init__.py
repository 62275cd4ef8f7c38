"""Situation a distribution policy decides in: network, readers, link traffic, rates, node load."""
