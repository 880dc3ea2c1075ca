"""Writes Grafana's dashboards into the chart, from the tables of panels below.

`python3 helm/generate_dashboards.py` writes; with `--check` it fails if a dashboard is not up to date.

In an expression `@` stands for the matchers of the variables namespace and pod, and `RATE` for the interval of rates.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "accelerd/dashboards"
DATASOURCE = {"type": "prometheus", "uid": "$datasource"}
MATCHERS = 'namespace=~"$namespace",pod=~"$pod"'
# Other programs have metrics of these names, too.
OF_DAEMONS = "and on (namespace, pod, instance) accelerd_build_info{@}"
COLUMNS = 24
WIDTH = 140
CALLS = 'accelerd_request_duration_seconds_count{@,method=~"$method"}'
SERVER_ERRORS = 'code=~"INTERNAL|UNKNOWN|DATA_LOSS|UNAVAILABLE|DEADLINE_EXCEEDED"'


@dataclass
class Panel:
    """A panel and its queries, each with the legend of its series."""

    title: str
    unit: str
    queries: dict[str, str]
    description: str = ""
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False
    # The value from which a number is red.
    bad: float | None = None

    @property
    def height(self) -> int:
        return 4 if self.kind == "stat" else 8


def stat(title: str, unit: str, query: str, description: str = "", bad: float | None = None) -> Panel:
    return Panel(title, unit, {"": query}, description, "stat", 4, bad=bad)


def quantile(q: float, metric: str, by: str, matchers: str = "@") -> str:
    return f"histogram_quantile({q}, sum by ({by}, le) (rate({metric}_bucket{{{matchers}}}[RATE])))"


def mean(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}_sum{{@}}[RATE])) / sum by ({by}) (rate({metric}_count{{@}}[RATE]))"


def rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{@}}[RATE]))"


def total(metric: str, by: str) -> str:
    return f"sum by ({by}) ({metric}{{@}})"


def latency(percent: int) -> Panel:
    query = quantile(percent / 100, "accelerd_request_duration_seconds", "method", '@,method=~"$method"')
    description = "From the headers of a request to the last byte of its response."
    return Panel(f"Latency, {percent}th percentile", "s", {"{{method}}": query}, description)


OVERVIEW = {
    "": [
        stat("Daemons", "none", "count(accelerd_build_info{@})"),
        stat("Calls", "reqps", f"sum(rate({CALLS}[RATE]))"),
        stat(
            "Calls that fail",
            "percentunit",
            f"(sum(rate({CALLS[:-1]},{SERVER_ERRORS}}}[RATE])) or vector(0)) / sum(rate({CALLS}[RATE]))",
            "Errors of the daemon; those of callers do not count.",
            bad=0.05,
        ),
        stat("Calls in progress", "none", "sum(accelerd_requests_in_flight{@})"),
        stat("Devices lost", "none", "sum(accelerd_device_lost{@})", bad=1),
        stat("Daemons without a GPU", "none", "count(accelerd_fallback_info{@}) or vector(0)"),
    ],
    "Calls": [
        Panel("Calls by method", "reqps", {"{{method}}": f"sum by (method) (rate({CALLS}[RATE]))"}),
        Panel(
            "Calls that did not succeed by code",
            "reqps",
            {"{{code}}": f'sum by (code) (rate({CALLS[:-1]},code!="OK"}}[RATE]))'},
        ),
        Panel("Calls in progress", "none", {"{{pod}}": total("accelerd_requests_in_flight", "pod")}),
        latency(50),
        latency(95),
        latency(99),
    ],
    "Queues and refusals": [
        Panel(
            "Queue wait, 99th percentile",
            "s",
            {"{{lane}}": quantile(0.99, "accelerd_queue_wait_seconds", "lane")},
            "Time from submission to launch.",
        ),
        Panel("Queued items", "none", {"{{lane}}": total("accelerd_queue_items", "lane")}),
        Panel(
            "Refusals",
            "reqps",
            {
                "admission: {{measure}}": rate("accelerd_admission_refused_total", "measure"),
                "memory: {{kind}}": rate("accelerd_memory_refused_total", "kind"),
                "transport memory": "sum(rate(accelerd_transport_memory_refused_total{@}[RATE]))",
                "credentials: {{reason}}": rate("accelerd_auth_refused_total", "reason"),
            },
        ),
        Panel(
            "Cancelled or expired",
            "reqps",
            {"{{lane}} {{stage}}": rate("accelerd_requests_cancelled_total", "lane, stage")},
        ),
    ],
    "Batches": [
        Panel("Requests of a batch, mean", "none", {"{{lane}}": mean("accelerd_batch_requests", "lane")}),
        Panel("Items of a batch, mean", "none", {"{{lane}}": mean("accelerd_batch_items", "lane")}),
        Panel(
            "Fill of a batch, mean",
            "percentunit",
            {"{{lane}}": mean("accelerd_batch_fill_ratio", "lane")},
            "Share of the limit of items or of bytes, whichever is larger.",
        ),
    ],
    "Memory and devices": [
        Panel(
            "Memory in use by kind",
            "bytes",
            {"{{place}} {{kind}}": total("accelerd_memory_used_bytes", "place, kind")},
            stacked=True,
        ),
        Panel(
            "Memory in use of the limit",
            "percentunit",
            {
                "{{pod}} {{place}}": "sum by (pod, place) (accelerd_memory_used_bytes{@}) "
                "/ sum by (pod, place) (accelerd_memory_limit_bytes{@})"
            },
        ),
        Panel(
            "Use of devices",
            "none",
            {"{{pod}} {{device}}": rate("accelerd_device_execute_seconds_sum", "pod, device")},
            "Batches that a device ran at once, on average.",
        ),
        Panel(
            "Time in kernels",
            "percentunit",
            {"{{pod}} {{device}}": rate("accelerd_kernel_seconds_total", "pod, device")},
            "Streams of a GPU run kernels at once, so that the sum may exceed 100%.",
        ),
        Panel(
            "Memory of GPUs",
            "bytes",
            {"{{pod}} {{device}} {{state}}": total("accelerd_device_memory_bytes", "pod, device, state")},
            "Total; used and reserved by the pool; the pool's peak use.",
        ),
    ],
}

DEVICES = {
    "": [
        stat("Devices", "none", "count(accelerd_device_lost{@})"),
        stat("Devices lost", "none", "sum(accelerd_device_lost{@})", bad=1),
        stat("Launches", "ops", "sum(rate(accelerd_device_execute_seconds_count{@}[RATE]))"),
        stat("Launches that failed", "ops", "sum(rate(accelerd_device_errors_total{@}[RATE])) or vector(0)"),
        stat("Sandboxes restarted", "ops", "sum(rate(accelerd_sandbox_restarts_total{@}[RATE]))"),
        stat("Calls that wait for a sandbox", "none", "sum(accelerd_sandbox_queued_calls{@})"),
    ],
    "Lanes": [
        Panel("Launches by lane", "ops", {"{{lane}} {{device}}": rate("accelerd_device_execute_seconds_count", "lane, device")}),
        Panel(
            "Use of devices by lane",
            "none",
            {"{{lane}} {{device}}": rate("accelerd_device_execute_seconds_sum", "lane, device")},
            "Batches that ran at once, on average.",
            stacked=True,
        ),
        Panel(
            "Time of a launch, 99th percentile",
            "s",
            {"{{lane}} {{device}}": quantile(0.99, "accelerd_device_execute_seconds", "lane, device")},
        ),
        Panel("Queue wait, median", "s", {"{{lane}}": quantile(0.5, "accelerd_queue_wait_seconds", "lane")}),
        Panel("Queue wait, 99th percentile", "s", {"{{lane}}": quantile(0.99, "accelerd_queue_wait_seconds", "lane")}),
        Panel("Queued bytes", "bytes", {"{{lane}}": total("accelerd_queue_bytes", "lane")}),
    ],
    "Kernels": [
        Panel(
            "Time in kernels",
            "percentunit",
            {"{{kernel}} {{device}}": f"topk(10, {rate('accelerd_kernel_seconds_total', 'kernel, device')})"},
        ),
        Panel(
            "Launches of kernels",
            "ops",
            {"{{kernel}} {{device}}": f"topk(10, {rate('accelerd_kernel_launches_total', 'kernel, device')})"},
        ),
        Panel(
            "Bandwidth of kernels",
            "Bps",
            {
                "{{kernel}} {{device}}": f"topk(10, {rate('accelerd_kernel_moved_bytes_total', 'kernel, device')} "
                f"/ {rate('accelerd_kernel_seconds_total', 'kernel, device')})"
            },
            "Bytes that a kernel reads and writes at least, over its time; kernels that count none show 0.",
        ),
    ],
    "Faults and fallbacks": [
        Panel("Devices lost", "none", {"{{pod}} {{device}}": total("accelerd_device_lost", "pod, device")}),
        Panel(
            "Losses and failed launches",
            "none",
            {
                "lost: {{device}} {{reason}}": "sum by (device, reason) (increase(accelerd_device_losses_total{@}[RATE]))",
                "failed: {{kind}}": "sum by (kind) (increase(accelerd_device_errors_total{@}[RATE]))",
            },
        ),
        Panel(
            "Requests on the CPU for lack of GPU memory",
            "reqps",
            {"{{lane}} {{device}}": rate("accelerd_cpu_fallback_requests_total", "lane, device")},
        ),
        Panel(
            "Items on the CPU that a GPU could not compute",
            "ops",
            {"{{lane}} {{reason}}": rate("accelerd_cpu_fallback_items_total", "lane, reason")},
        ),
        Panel("Daemons without a GPU", "none", {"{{pod}}: {{reason}}": total("accelerd_fallback_info", "pod, reason")}),
        Panel("Evictions", "Bps", {"{{place}} {{kind}}": rate("accelerd_memory_evicted_bytes_total", "place, kind")}),
    ],
    "Sandboxes and start": [
        Panel(
            "Sandboxes that ended",
            "ops",
            {
                "restarts": "sum(rate(accelerd_sandbox_restarts_total{@}[RATE]))",
                "crashes": "sum(rate(accelerd_sandbox_crashes_total{@}[RATE]))",
                "timeouts": "sum(rate(accelerd_sandbox_timeouts_total{@}[RATE]))",
                "out of memory": "sum(rate(accelerd_sandbox_out_of_memory_total{@}[RATE]))",
            },
        ),
        Panel(
            "Work of sandboxes",
            "ops",
            {
                "calls": "sum(rate(accelerd_sandbox_calls_total{@}[RATE]))",
                "launches": "sum(rate(accelerd_sandbox_launches_total{@}[RATE]))",
                "compilations": "sum(rate(accelerd_sandbox_compilations_total{@}[RATE]))",
            },
        ),
        Panel("Time of the start", "s", {"{{pod}} {{phase}}": total("accelerd_start_seconds", "pod, phase")}, stacked=True),
    ],
}

DATA = {
    "": [
        stat("Collections", "none", "sum(accelerd_collections{@})"),
        stat("Points", "short", "sum(accelerd_collection_points{@})"),
        stat("Read-only collections", "none", "sum(accelerd_collections_read_only{@})", "Their files are damaged.", 1),
        stat("Text indexes that wait", "none", "sum(accelerd_collections_text_index_postponed{@})", bad=1),
        stat("Models", "none", "sum(accelerd_models{@})"),
        stat(
            "Fullest disk",
            "percentunit",
            "1 - min(accelerd_filesystem_free_bytes{@} / accelerd_filesystem_size_bytes{@})",
            bad=0.9,
        ),
    ],
    "Collections": [
        Panel(
            "Calls of collections",
            "reqps",
            {
                "{{method}} {{code}}": "sum by (method, code) (rate("
                'accelerd_request_duration_seconds_count{@,method=~".*Similarity.*"}[RATE]))'
            },
        ),
        Panel(
            "Latency of collections, 99th percentile",
            "s",
            {
                "{{method}}": quantile(
                    0.99, "accelerd_request_duration_seconds", "method", '@,method=~".*Similarity.*"'
                )
            },
        ),
        Panel("Points", "short", {"{{pod}}": total("accelerd_collection_points", "pod")}),
        Panel(
            "Memory of collections",
            "bytes",
            {
                "host": "sum(accelerd_collection_memory_bytes{@})",
                "devices": "sum(accelerd_collection_device_memory_bytes{@})",
                "reserved": "sum(accelerd_collection_budget_bytes{@})",
                "limit": "sum(accelerd_collection_budget_limit_bytes{@})",
            },
        ),
        Panel(
            "Collections with faults",
            "none",
            {
                "read-only": "sum(accelerd_collections_read_only{@})",
                "text index waits": "sum(accelerd_collections_text_index_postponed{@})",
                "points set aside": "sum(accelerd_collection_set_aside_points{@})",
            },
        ),
        Panel("Weights of models", "bytes", {"{{pod}}": total("accelerd_model_memory_bytes", "pod")}),
    ],
    "Store": [
        Panel(
            "Free disk",
            "bytes",
            {"{{pod}} {{setting}}": total("accelerd_filesystem_free_bytes", "pod, setting")},
            "File systems of the folders that the daemon writes to.",
        ),
        Panel(
            "Disk in use",
            "percentunit",
            {
                "{{pod}} {{setting}}": "1 - sum by (pod, setting) (accelerd_filesystem_free_bytes{@}) "
                "/ sum by (pod, setting) (accelerd_filesystem_size_bytes{@})"
            },
        ),
        Panel(
            "Recovery at the start",
            "bytes",
            {
                "{{pod}} read": total("accelerd_recovery_done_bytes", "pod"),
                "{{pod}} of": total("accelerd_recovery_total_bytes", "pod"),
            },
        ),
    ],
    "HTTP and connections": [
        Panel(
            "HTTP requests refused before a method was called",
            "reqps",
            {"{{status}} {{reason}}": rate("accelerd_http_requests_refused_total", "status, reason")},
        ),
        Panel("Calls refused by their credentials", "reqps", {"{{reason}}": rate("accelerd_auth_refused_total", "reason")}),
        Panel("Connections", "none", {"{{pod}}": total("accelerd_connections", "pod")}),
        Panel(
            "Connections refused or cut off",
            "ops",
            {
                "refused": "sum(rate(accelerd_connections_refused_total{@}[RATE]))",
                "evicted": "sum(rate(accelerd_connections_evicted_total{@}[RATE]))",
                "stalled calls": "sum(rate(accelerd_calls_stalled_total{@}[RATE]))",
            },
        ),
        Panel("Transport memory", "bytes", {"{{kind}}": total("accelerd_transport_memory_bytes", "kind")}, stacked=True),
        Panel(
            "Time until a certificate expires",
            "s",
            {"{{pod}} {{certificate}}": "min by (pod, certificate) (accelerd_tls_certificate_expiry_timestamp_seconds{@}) - time()"},
        ),
    ],
    "Process": [
        Panel("CPU", "none", {"{{pod}}": f"rate(process_cpu_seconds_total{{@}}[RATE]) {OF_DAEMONS}"}, "Cores in use."),
        Panel("Resident memory", "bytes", {"{{pod}}": f"process_resident_memory_bytes{{@}} {OF_DAEMONS}"}),
        Panel(
            "Use of the threads that serve connections",
            "percentunit",
            {"{{pod}} {{reactor}}": rate("accelerd_reactor_busy_seconds_total", "pod, reactor")},
        ),
    ],
}

DASHBOARDS = {
    "overview": ("accelerd: overview", OVERVIEW),
    "devices": ("accelerd: devices and lanes", DEVICES),
    "data": ("accelerd: collections, store and HTTP", DATA),
}


def target(ref: str, legend: str, query: str) -> dict[str, Any]:
    expression = query.replace("@", MATCHERS).replace("RATE", "$__rate_interval")
    return {"refId": ref, "expr": expression, "legendFormat": legend}


def drawn(panel: Panel, at: int, x: int, y: int) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    options: dict[str, Any] = {"tooltip": {"mode": "multi", "sort": "desc"}}
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area"}
        steps = [{"color": "green", "value": None}, {"color": "red", "value": panel.bad}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps[: 1 if panel.bad is None else 2]}
    if panel.stacked:
        defaults["custom"] = {"fillOpacity": 20, "stacking": {"mode": "normal", "group": "A"}}
    return {
        "id": at,
        "type": panel.kind,
        "title": panel.title,
        **({"description": panel.description} if panel.description else {}),
        "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [target(chr(ord("A") + n), *query) for n, query in enumerate(panel.queries.items())],
    }


def panels(rows: dict[str, list[Panel]]) -> list[dict[str, Any]]:
    """The panels of all rows in reading order, each row below a heading."""
    made: list[dict[str, Any]] = []
    y = 0
    for title, row in rows.items():
        if title:
            heading = {"id": len(made) + 1, "type": "row", "title": title, "collapsed": False}
            made.append({**heading, "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}, "panels": []})
            y += 1
        x = 0
        for panel in row:
            if x + panel.width > COLUMNS:
                x, y = 0, y + panel.height
            made.append(drawn(panel, len(made) + 1, x, y))
            x += panel.width
        y += row[-1].height
    return made


def variable(name: str, query: str) -> dict[str, Any]:
    """A variable of the values of a label, several of which may be chosen. All includes series without the label."""
    return {
        "name": name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def dashboard(name: str) -> dict[str, Any]:
    title, rows = DASHBOARDS[name]
    variables = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
        variable("namespace", "label_values(accelerd_build_info, namespace)"),
        variable("pod", 'label_values(accelerd_build_info{namespace=~"$namespace"}, pod)'),
        variable("method", f"label_values(accelerd_request_duration_seconds_count{{{MATCHERS}}}, method)"),
    ]
    return {
        "uid": f"accelerd-{name}",
        "title": title,
        "tags": ["accelerd"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "title": "accelerd", "tags": ["accelerd"], "includeVars": True, "keepTime": True}],
        "templating": {"list": variables},
        "panels": panels(rows),
    }


def formatted(value: Any, indent: str = "") -> str:
    """JSON with each value on one line, if it fits."""
    line = json.dumps(value)
    if not isinstance(value, (dict, list)) or len(indent) + len(line) <= WIDTH:
        return line
    inner = indent + "  "
    if isinstance(value, list):
        entries, brackets = [formatted(one, inner) for one in value], "[]"
    else:
        entries, brackets = [f"{json.dumps(key)}: {formatted(one, inner)}" for key, one in value.items()], "{}"
    return brackets[0] + "".join(f"\n{inner}{entry}," for entry in entries)[:-1] + f"\n{indent}{brackets[1]}"


def main() -> None:
    for name in DASHBOARDS:
        file = FOLDER / f"{name}.json"
        text = formatted(dashboard(name)) + "\n"
        if "--check" not in sys.argv[1:]:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            sys.exit(f"{file} is not up to date: run python3 helm/generate_dashboards.py")


if __name__ == "__main__":
    main()
