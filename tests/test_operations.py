"""Operations guide, dashboard and alerts: they name metrics that are exported, and all that matter."""

from __future__ import annotations

import re
from pathlib import Path

from distced.brokers.core.metrics import METRICS

ROOT = Path(__file__).parents[1]

NAMES = {each.name for each in METRICS}


def test_guide_lists_every_metric_as_it_is() -> None:
    rows = re.findall(r"^\| `(distced_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", read("docs/how-to/operations.md"), re.M)
    listed = {name: (kind, labels, text.lower()) for name, kind, labels, text in rows}
    assert listed == {
        each.name: (each.kind, ", ".join(f"`{label}`" for label in each.labels), each.help.rstrip(".").lower())
        for each in METRICS
    }


def read(path: str) -> str:
    return (ROOT / path).read_text("utf-8")
