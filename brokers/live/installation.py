"""Installation of this process: versions, optional packages, limits of the system and the error of its clock."""

from __future__ import annotations

import os
import platform
import shutil
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import msgpack  # type: ignore[import-untyped]
from msgspec.structs import replace

from distced.brokers.core.identity import Installation
from distced.detectors.runtime.engines import has_columnar, is_compiled
from distced.middleware.model.clock_uncertainty import ntp_uncertainty
from distced.middleware.model.errors import DistcedError

PACKAGES: Final = ("amqtt", "cryptography", "fsspec", "networkx", "pyarrow", "pyspark", "ray", "scipy")
"""Optional packages, by their names in registries."""

THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@cache
def installation() -> Installation:
    """Installation of this process, without a look at compiled functions, which would import numba."""
    error, problem = None, ""
    try:
        error = ntp_uncertainty()
    except (DistcedError, OSError, AttributeError) as raised:
        problem = raised.problem if isinstance(raised, DistcedError) else str(raised)
    return Installation(
        distced=_version("distced"),
        python=platform.python_version(),
        numba=_version("numba"),
        msgpack_extension=msgpack.Packer.__module__ != "msgpack.fallback",
        packages={name: _version(name) for name in PACKAGES},
        java=shutil.which("java") or "",
        processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        threads={name: os.environ[name] for name in THREADS if name in os.environ},
        open_files=_open_files(),
        clock_error=error,
        clock_problem=problem,
    )


def installation_with_compiled() -> Installation:
    """Installation of this process, and whether the functions of the columnar engine are compiled; imports numba."""
    found = installation()
    if not has_columnar():
        return found
    with suppress(Exception):  # whatever an installation of numba raises that does not fit
        return replace(found, compiled=is_compiled())
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _open_files() -> int:
    """Limit on open files of this process; 0 for none, and where the system has no such limit."""
    try:
        import resource
    except ImportError:
        return 0
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 0 if limit == resource.RLIM_INFINITY else limit
