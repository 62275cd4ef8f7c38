"""Extras of distced, by the package that is not installed.

Heavy packages are imported where they are needed, and most are optional. Where a verb does not check for one itself,
this keeps people from reading a traceback.
"""

from __future__ import annotations

from typing import Final

from distced.middleware.model.errors import DistcedError

EXTRAS: Final = {
    "amqtt": "broker",
    "cryptography": "init",
    "matplotlib": "draw",
    "networkx": "broker",
    "numba": "fast",
    "numpy": "tables",
    "opentelemetry": "traces",
    "pandas": "spark",
    "prometheus_client": "metrics",
    "pyarrow": "tables",
    "pyspark": "spark",
    "ray": "ray",
    "scipy": "place",
}
"""By the name it is imported under."""


def missing(error: ImportError) -> DistcedError | None:
    """Error that names the extra of a package that was not found; None where that is not for want of an extra."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    advice = f"pip install 'distced[{extra}]', or in a checkout pip install -e '.[{extra}]'"
    return DistcedError(f"this needs {package}, which is not installed", advice=advice)
