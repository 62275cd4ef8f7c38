"""Subscriptions to what verbs are given as a pattern: a type, a pattern, a pattern file, a text in another language."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from distced.brokers.cli.derived_types import new_types, published_by
from distced.brokers.core.directory import Directory
from distced.detectors.compiler import Compiled
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.detectors.stepwise.engine import in_order
from distced.middleware.cli.options import PATIENCE
from distced.middleware.cli.output import show_notes
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.errors import DistcedError


def subscribe_source(client: Client, source: PatternSource, quality: QualityOfService) -> Sequence[Subscription]:
    """Subscribe to a type, a pattern, all patterns of a file or all queries of a text."""
    text = source.text.strip()
    if source.name or source.language or not text.isidentifier():
        client.wait_for_nodes(1, PATIENCE)
    if not (source.name or source.language):
        return [client.subscribe(text, quality=quality)]
    # Types that the patterns may read: registered ones, and those that detectors publish.
    directory = Directory()
    for kind, entries in (("type", client.types), ("detector", client.detectors)):
        for name, entry in entries.items():
            directory.put(kind, name, entry)
    registry = directory.registry()
    patterns = compile_source(source, registry)
    groups = _in_groups(patterns.compiled)
    if quality.since is not None and len(groups) > 1:
        read = sorted({each.publishes.name for each in groups[0]} - {""})
        raise DistcedError(
            "patterns that read each other's composite events cannot begin with recorded events",
            given=", ".join(read),
            where=source.name or None,
            advice="make what is read private: private C -> Name(...)",
        )
    show_notes(patterns.notes)
    if source.language:
        names = {id(each): name for each, name in zip(patterns.compiled, patterns.results, strict=True)}
        ordered = [names[id(each)] for together in groups for each in together]
        asked = partial(client.subscribe, source.text, quality=quality, language=source.language)
        return [asked(query=each) for each in ordered]
    client.register(*new_types(patterns, registry, client.types), awaited=published_by(patterns))
    subscriptions: list[Subscription] = []
    for together in groups:
        subscriptions += client.subscribe_many([each.text for each in together], quality=quality)
    return subscriptions


def _in_groups(patterns: Sequence[Compiled]) -> list[list[Compiled]]:
    """Patterns in groups, each behind those that publish what it reads."""
    groups: list[list[Compiled]] = [[]]
    published: set[str] = set()
    for each in in_order(patterns):
        if published & each.names():
            groups.append([])
            published = set()
        groups[-1].append(each)
        published |= {each.publishes.name} - {""}
    return groups
