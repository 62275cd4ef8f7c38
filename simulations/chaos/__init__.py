"""Fault campaigns: broker nodes under random faults, in virtual time and on this machine, against one engine."""
