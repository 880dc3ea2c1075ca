"""Dashboards and alerts name only metrics and labels that a daemon exposes, and every query of a dashboard returns data."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ALERTS, METRICS_FILE, ROOT, Prometheus

DASHBOARDS = sorted((ROOT / "helm/accelerd/dashboards").glob("*.json"))
VARIABLES = {"$namespace": ".*", "$pod": ".*", "$method": ".*", "$__rate_interval": "1m"}
# Labels that Prometheus gives the series of a target; those of Kubernetes are absent here.
OF_TARGETS = {"job", "instance", "namespace", "pod"}
# What only a fault or a GPU brings about. The source declares them.
ABSENT = {
    "accelerd_admission_refused_total",
    "accelerd_cpu_fallback_items_total",
    "accelerd_cpu_fallback_requests_total",
    "accelerd_device_errors_total",
    "accelerd_device_losses_total",
    "accelerd_requests_cancelled_total",
}
SELECTOR = re.compile(r"\b(accelerd_\w+|process_\w+|rpc_\w+|up)\b(?:{([^}]*)})?")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')


def queries() -> list[tuple[str, str]]:
    """The queries of the dashboards, each with its place."""
    found = []
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", []):
                found.append((f"{file.stem}: {panel['title']}: {target['legendFormat']}", target["expr"]))
    return found


def rules() -> list[tuple[str, str]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return [(rule["alert"], rule["expr"]) for rule in group["rules"]]


def source() -> str:
    return "".join(file.read_text() for folder in ("server", "kernels") for file in (ROOT / folder).glob("**/src/**/*.rs"))


SOURCE = source()


def is_declared(metric: str) -> bool:
    """Whether the source has an instrument of this name, to which Prometheus adds a suffix."""
    names = [metric, *(metric.removesuffix(suffix) for suffix in ("_total", "_bucket", "_count", "_sum"))]
    return any(f'"{name}"' in SOURCE for name in names)


def unknown_names(expression: str, exposed: dict[str, set[str]]) -> list[str]:
    """Metrics, labels and values of labels that neither the daemon nor, where it exposes no such metric, its source has."""
    unknown = []
    labels: set[str] = set()
    for metric, matchers in SELECTOR.findall(expression):
        if metric in exposed:
            known = exposed[metric]
        else:
            known = set(re.findall(r'KeyValue::new\("(\w+)"', SOURCE))
            may_be_absent = METRICS_FILE or metric in ABSENT
            unknown += [] if may_be_absent and is_declared(metric) else [metric]
        labels |= known
        for label, values in MATCHER.findall(matchers):
            unknown += [] if label in known | OF_TARGETS else [f"{metric}.{label}"]
            words = [value for value in values.split("|") if re.fullmatch(r"\w+", value)]
            unknown += [f"{label}={word}" for word in words if f'"{word}"' not in SOURCE]
    for listed in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression):
        unknown += [label for label in re.split(r"[,\s]+", listed) if label not in labels | OF_TARGETS]
    return unknown


@pytest.fixture(scope="session")
def exposed(prometheus: Prometheus) -> dict[str, set[str]]:
    labels = prometheus.labels
    if METRICS_FILE:
        assert prometheus.query('accelerd_device_lost{device=~"cuda.*"}'), f"{METRICS_FILE} is of a daemon without a GPU"
    else:
        assert not ABSENT & labels.keys(), "it need not be declared absent"
    return labels


def substituted(expression: str) -> str:
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


@pytest.mark.parametrize("expression", [pytest.param(expression, id=place) for place, expression in queries()])
def test_a_query_of_a_dashboard_names_what_exists_and_returns_data(expression, prometheus, exposed):
    expression = substituted(expression)
    assert "$" not in expression
    assert unknown_names(expression, exposed) == []
    if all(metric in exposed for metric, _ in SELECTOR.findall(expression)):
        assert prometheus.query(expression)


@pytest.mark.parametrize("expression", [pytest.param(expression, id=alert) for alert, expression in rules()])
def test_an_alert_names_what_exists_and_does_not_fire(expression, prometheus, exposed):
    assert unknown_names(expression, exposed) == []
    fired = prometheus.query(expression)
    assert METRICS_FILE or fired == [] or states_of_the_machine(expression)


def states_of_the_machine(expression: str) -> bool:
    """Whether an alert tells of what the machine has, and not of what the daemon did: its disk may be full."""
    return "accelerd_filesystem_" in expression


def test_prometheus_evaluates_all_alerts(prometheus):
    (group,) = prometheus.get("rules")["groups"]
    assert {rule["name"]: rule["health"] for rule in group["rules"]} == {alert: "ok" for alert, _ in rules()}


def test_unknown_metrics_labels_and_values_are_found(exposed):
    for expression, expected in [
        ("rate(accelerd_gone_total[1m])", ["accelerd_gone_total"]),
        ('accelerd_queue_items{line="embed"}', ["accelerd_queue_items.line"]),
        ('accelerd_request_duration_seconds_count{code=~"OK|INTERN"}', ["code=INTERN"]),
        ("sum by (line, lane) (accelerd_queue_items)", ["line"]),
        ("sum by (lane) (accelerd_queue_items)", []),
    ]:
        assert unknown_names(expression, exposed) == expected


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_dashboard_can_be_imported_without_edits(file: Path):
    dashboard = json.loads(file.read_text())
    assert "__inputs" not in dashboard and "id" not in dashboard
    assert dashboard["uid"] == f"accelerd-{file.stem}"
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert list(variables) == ["datasource", "namespace", "pod", "method"]
    assert variables["datasource"]["type"] == "datasource"
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = set()
    for panel in panels:
        at = panel["gridPos"]
        covered = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not covered & cells and all(x < 24 for x, _ in covered), panel["title"]
        cells |= covered
        assert panel["type"] == "row" or panel["datasource"] == {"type": "prometheus", "uid": "$datasource"}


def test_the_dashboards_are_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "helm/generate_dashboards.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
