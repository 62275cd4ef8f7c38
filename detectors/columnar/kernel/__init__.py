"""Compiled kernel of the columnar engine: functions on arrays of numbers, compiled by numba."""
