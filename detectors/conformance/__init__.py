"""Conformance cases: the meaning of patterns, as data for every engine (design, section 5)."""

from distced.detectors.conformance.case_runner import ENGINES, CaseOutcome, Run, compile_case, run_case
from distced.detectors.conformance.cases import Case, ConformanceError, Match, load_cases, parse_cases
from distced.detectors.runtime.engines import Kinds

__all__ = [
    "ENGINES",
    "Case",
    "CaseOutcome",
    "ConformanceError",
    "Kinds",
    "Match",
    "Run",
    "compile_case",
    "load_cases",
    "parse_cases",
    "run_case",
]
