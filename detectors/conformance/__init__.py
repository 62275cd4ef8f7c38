"""Conformance cases: what patterns mean, as data that every engine is held to (design, section 5)."""

from distced.detectors.conformance.case_runner import ENGINES, Outcome, Run, compile_case, run_case
from distced.detectors.conformance.cases import Case, ConformanceError, Match, load_cases, parse_cases
from distced.detectors.runtime.engines import Kinds

__all__ = [
    "ENGINES",
    "Case",
    "ConformanceError",
    "Kinds",
    "Match",
    "Outcome",
    "Run",
    "compile_case",
    "load_cases",
    "parse_cases",
    "run_case",
]
