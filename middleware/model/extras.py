"""Which extra of distced brings a package that is not installed.

What is heavy is imported where it is needed, and most of it is optional. Where that is foreseen, the verb says what is
missing and what else would do; this is for all the rest, so that nobody reads a traceback for it.
"""

from __future__ import annotations

from typing import Final

from distced.middleware.model.errors import DistcedError

EXTRAS: Final = {
    "amqtt": "broker",
    "matplotlib": "draw",
    "networkx": "broker",
    "numba": "fast",
    "numpy": "tables",
    "pandas": "spark",
    "pyarrow": "tables",
    "pyspark": "spark",
    "ray": "broker",
    "scipy": "place",
}
"""By the name it is imported under."""


def missing(error: ImportError) -> DistcedError | None:
    """What to say where a package was not found; None where that is not for want of an extra."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    advice = f"pip install 'distced[{extra}]', or in a checkout pip install -e '.[{extra}]'"
    return DistcedError(f"this needs {package}, which is not installed", advice=advice)
