"""The verb `history` with all its verbs: those of the middleware, and `compact`, which needs Spark's tasks."""

from __future__ import annotations

from distced.middleware.cli.history import history
from distced.simulations.ingest.compact_verb import compact

history.command("compact")(compact)

__all__ = ["history"]
