"""Operations guide, dashboard and alerts: they name metrics and labels that are exported, and all that matter."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distced.brokers.core.metrics import METRICS

yaml = pytest.importorskip("yaml", reason="alerts are in YAML")

ROOT = Path(__file__).parents[1]

LABELS = {each.name: {*each.labels, "node", "recorder", "bridge", "job", "instance"} for each in METRICS}
for each in METRICS:
    if each.kind == "histogram":
        LABELS |= {f"{each.name}_{part}": LABELS[each.name] | {"le"} for part in ("bucket", "count", "sum")}

BESIDE = {
    *("distced_frames_total", "distced_load_ratio", "distced_sources", "distced_migrations_begun_total"),
    *("distced_checkpoints_saved_total", "distced_received_messages_total", "distced_sent_messages_total"),
    "distced_sources_fenced_total",
    *("distced_patterns_refused_total", "distced_unpublished_dead_letters_total"),
    *("distced_durable_events_dropped_total", "distced_bridge_late_events_total"),
    *("distced_recorder_written_files_total", "distced_recorder_late_events_total"),
    *("distced_recorder_duplicate_events_total", "distced_recorder_unwritten_events"),
    *("distced_bridge_retained_messages_total", "distced_bridge_left_out_events_total"),
}
"""Metrics that the dashboard and the alerts do without."""


def read(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def dashboard() -> dict[str, Any]:
    return dict(json.loads(read("docker/grafana/distced.json")))


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(read("docker/prometheus/alerts.yml"))["groups"]
    return list(group["rules"])


def expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in dashboard()["templating"]["list"]:
        yield from [variable["definition"]] if "definition" in variable else []
    yield from (each["expr"] for each in rules())


def test_guide_lists_every_metric_as_it_is() -> None:
    rows = re.findall(r"^\| `(distced_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", read("docs/how-to/operations.md"), re.M)
    listed = {name: (kind, labels, text.lower()) for name, kind, labels, text in rows}
    assert listed == {
        each.name: (each.kind, ", ".join(f"`{label}`" for label in each.labels), each.help.rstrip(".").lower())
        for each in METRICS
    }


def test_expressions_name_exported_metrics_and_their_labels() -> None:
    found = set()
    for expression in expressions():
        names = re.findall(r"\bdistced_\w+", expression)
        assert names or "process_" in expression or expression.startswith("up{"), expression
        assert set(names) <= LABELS.keys(), expression
        found.update(names)
        labels = {
            label for inner in re.findall(r"\{(.*?)\}", expression) for label in re.findall(r"(\w+)\s*[=!]", inner)
        }
        labels |= {label for inner in re.findall(r"by \((.*?)\)", expression) for label in inner.split(", ")}
        allowed = set.union(*(LABELS[name] for name in names)) if names else {"job", "instance"}
        assert labels <= allowed, (expression, labels)
    exported = {name.removesuffix("_bucket") for name in found}
    assert {each.name for each in METRICS} - exported == BESIDE


def test_legends_and_annotations_name_labels_that_the_expressions_keep() -> None:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            expression, shown = target["expr"], set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            names = re.findall(r"\bdistced_\w+", expression)
            kept = set.union(*(LABELS[name] for name in names)) if names else {"instance"}
            if re.match(r"(sum|histogram_quantile)", expression):
                grouped = re.search(r"sum by \((.*?)\)", expression)
                kept = set(grouped.group(1).split(", ")) if grouped else set()
            assert shown <= kept, (panel["title"], target)
    for rule in rules():
        names = re.findall(r"\bdistced_\w+", rule["expr"])
        kept = set.union(*(LABELS[name] for name in names)) if names else {"instance"}
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= kept, rule["alert"]


def test_dashboard_can_be_imported() -> None:
    found = dashboard()
    assert [each["name"] for each in found["templating"]["list"]] == ["datasource", "job", "node"]
    identities = [each["id"] for each in found["panels"]]
    assert len(identities) == len(set(identities))
    taken: set[tuple[int, int]] = set()
    for panel in found["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["datasource"]["uid"] == "${datasource}" and panel["description"].endswith("."), panel["title"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells


def test_every_alert_is_explained() -> None:
    guide = read("docs/how-to/operations.md")
    alerts = [rule["alert"] for rule in rules()]
    assert re.findall(r"^\| `(Distced\w+)` \|", guide, re.M) == alerts
    assert all(rule["labels"]["severity"] in ("warning", "critical") for rule in rules())


def test_prometheus_accepts_configuration_and_expressions(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool of Prometheus is not installed")
    replaced = {"$__rate_interval": "5m", "$node": ".*", "$job": ".*"}
    recorded = []
    for number, expression in enumerate(each for each in expressions() if not each.startswith("label_values")):
        for name, text in replaced.items():
            expression = expression.replace(name, text)
        recorded.append({"record": f"r{number}", "expr": expression})
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "d", "rules": recorded}]}))
    configuration = ROOT / "docker" / "prometheus" / "prometheus.yml"
    for command in (["config", str(configuration)], ["rules", str(tmp_path / "rules.yml")]):
        checked = subprocess.run([promtool, "check", *command], capture_output=True, text=True, timeout=60)
        assert checked.returncode == 0, checked.stdout + checked.stderr
