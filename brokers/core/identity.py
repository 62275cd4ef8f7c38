"""Identity of a broker node on request: its clock, version, formats and installation, for `distced doctor`.

    <root>/a/node/<node>/identify/<asker>   asks a node for its identity       (empty)
    <root>/a/identity/<asker>/<node>        the answer                         Identity

A node of an earlier version does not answer. Fields of its entry were rejected: clocks are compared by the time at
which a request is answered, and all others would read with each status what one person wants to know now and then.
"""

from __future__ import annotations

import msgspec

from distced.middleware.wire.bounded_values import Count, Instant, Name
from distced.middleware.wire.codec import declare
from distced.middleware.wire.topics import ROOT, administration_topic


class Installation(msgspec.Struct, frozen=True):
    """Installation that a process runs in; empty texts, zeros and None for unknown, unless said otherwise.

    Attributes:
        distced, python: versions.
        numba: version; empty for not installed.
        compiled: whether the functions of the columnar engine are on disk for this version.
        msgpack_extension: whether msgpack is the compiled one, not its fallback in Python.
        packages: versions of optional packages; empty texts for those that are not installed.
        java: path of the program; empty for none.
        processors: number that the process may use.
        threads: environment variables that limit the threads of libraries.
        open_files: limit on open files of the process; 0 for none.
        clock_error: greatest error of the clock by the kernel, ns.
        clock_problem: why there is no such figure.
    """

    distced: str = ""
    python: str = ""
    numba: str = ""
    compiled: bool | None = None
    msgpack_extension: bool = True
    packages: dict[str, str] = {}
    java: str = ""
    processors: Count = 0
    threads: dict[str, str] = {}
    open_files: Count = 0
    clock_error: Count | None = None
    clock_problem: str = ""


class Identity(msgspec.Struct, frozen=True):
    """Answer of a node.

    Attributes:
        at: time by its clock, ns.
        formats: versions of its formats, by name: of what it sends, and of what others take over.
        unconnected: homes to which it has no connection, with the reason, without logins.
    """

    node: Name
    at: Instant
    formats: dict[str, Count] = {}
    installation: Installation = Installation()
    unconnected: dict[str, str] = {}


declare(Identity)


def identify_topic(node: str, asker: str, *, root: str = ROOT) -> str:
    """Topic of a request to a node."""
    return administration_topic("node", node, "identify", asker, root=root)


def identity_topic(asker: str, node: str, *, root: str = ROOT) -> str:
    """Topic of the answer of a node."""
    return administration_topic("identity", asker, node, root=root)
