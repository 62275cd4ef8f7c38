"""Optimal placement as a mixed-integer programme for HiGHS: search space, rows, solution."""
