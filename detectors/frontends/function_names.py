"""Functions in expressions of languages without variables: those of the core of values and of local times."""

from __future__ import annotations

from typing import Final

from distced.detectors.language.scanner import error_at
from distced.middleware.sets.expressions import Call, Expression, Moment, walk
from distced.middleware.sets.local_time import LOCAL_TIMES
from distced.middleware.sets.values import FUNCTIONS

_KNOWN: Final = ", ".join(each for each in FUNCTIONS if each != "in")


def check_functions(expression: Expression, text: str, language: str, advice: str) -> None:
    """Raise `PatternError` for a function that the language does not have, with advice, and for a variable."""
    for node in walk(expression):
        match node:
            case Call(function=function) if function not in FUNCTIONS and function not in LOCAL_TIMES:
                problem = f"no function of {language}"
                raise error_at(text, node.span, problem, given=function, allowed=_KNOWN, advice=advice)
            case Moment(end=end, variable=variable) if variable:
                problem = f"{language} has no variables"
                raise error_at(text, node.span, problem, given=variable, advice=f"write {end}(), or DUR")
            case _:
                pass
