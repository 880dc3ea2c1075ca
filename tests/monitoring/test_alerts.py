"""Each alert fires after the time of its rule and clears when its cause is gone; each has a section in docs/runbooks.md."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from conftest import ALERTS, ROOT

RUNBOOKS = ROOT / "docs/runbooks.md"
RULES = {rule["alert"]: rule for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]}
TARGET = 'job="accelerd",instance="a:7434"'
CALLS = "accelerd_request_duration_seconds_count"
WAIT = "accelerd_queue_wait_seconds_bucket"


@dataclass
class Case:
    """Series with a sample a minute, in promtool's notation; the minutes when the alert is still silent, fires, and has cleared."""

    series: dict[str, str]
    minutes: tuple[int, int, int]
    labels: dict[str, str]
    description: str


# Counters go up by a number each minute; from the 30th minute on, what is bad has ended.
CASES = {
    "AccelerdDown": Case({"up": "1 0x9 1x50"}, (2, 4, 15), {"job": "accelerd"}, "a:7434 of the job accelerd has not answered for 2 minutes."),
    "AccelerdErrors": Case(
        {f'{CALLS}{{code="OK"}}': "0+60x60", f'{CALLS}{{code="INTERNAL"}}': "0+15x30 450x30"},
        (9, 20, 45), {}, "a:7434 fails 20% of its calls.",
    ),
    "AccelerdQueueWait": Case(
        {f'{WAIT}{{lane="embed",le="{le}"}}': values
         for le, values in {"1": "0x30 60+60x29", "2.5": "0+60x60", "+Inf": "0+60x60"}.items()},
        (9, 20, 45), {"lane": "embed"}, "One request in 100 of the lane embed of a:7434 waits 2.485s or longer.",
    ),
    "AccelerdRefusals": Case(
        {f'{CALLS}{{code="OK"}}': "0+60x60", f'{CALLS}{{code="RESOURCE_EXHAUSTED"}}': "0+20x30 600x30"},
        (9, 20, 45), {}, "a:7434 refuses 25% of its calls.",
    ),
    "AccelerdWithoutGpu": Case(
        {'accelerd_fallback_info{reason="no driver"}': "1x30 _x30", 'accelerd_fallback_info{reason="backend is \\"cpu\\""}': "1x60"},
        (4, 6, 45), {"job": "accelerd", "reason": "no driver"}, "a:7434 uses no GPU: no driver.",
    ),
    "AccelerdCpuFallback": Case(
        {'accelerd_cpu_fallback_requests_total{device="cuda:0",lane="encode",reason="memory"}': "0+1x30 30x30"},
        (10, 20, 45), {"device": "cuda:0", "lane": "encode"}, "cuda:0 of a:7434 leaves requests of the lane encode to the CPU.",
    ),
    "AccelerdDeviceLost": Case(
        {'accelerd_device_lost{device="cuda:0"}': "0x5 1 _x5 0x50"},
        (5, 14, 30), {"job": "accelerd", "device": "cuda:0"}, "cuda:0 of a:7434 is lost, or was in the last 10 minutes.",
    ),
    "AccelerdMemoryNearLimit": Case(
        {
            'accelerd_memory_used_bytes{place="host",kind="collections"}': "95x30 50x30",
            'accelerd_memory_used_bytes{place="host",kind="copies"}': "50x60",
            'accelerd_memory_limit_bytes{place="host"}': "100x60",
        },
        (9, 11, 45), {"place": "host"}, "host of a:7434 uses 95% of its limit, without caches.",
    ),
    "AccelerdCertificateExpiry": Case(
        {'accelerd_tls_certificate_expiry_timestamp_seconds{certificate="server"}': "88200x30 9000000x30"},
        (9, 30, 45), {"job": "accelerd", "certificate": "server"}, "server of a:7434 expires in 1d 0h 0m 0s.",
    ),
    "AccelerdTextIndexPostponed": Case(
        {"accelerd_collections_text_index_postponed": "0x5 2x40 0x60"},
        (35, 37, 50), {"job": "accelerd"}, "2 collections of a:7434 keep texts in write buffers.",
    ),
    "AccelerdCollectionsReadOnly": Case(
        {"accelerd_collections_read_only": "0x5 1x25 0x30"},
        (4, 8, 45), {"job": "accelerd"}, "1 collections of a:7434 are read-only.",
    ),
    "AccelerdSandboxRestarts": Case(
        {"accelerd_sandbox_restarts_total": "0+1x30 30x30"},
        (5, 20, 50), {"job": "accelerd"}, "a:7434 replaced 15 processes for code of clients in 15 minutes.",
    ),
    "AccelerdDiskNearlyFull": Case(
        {
            'accelerd_filesystem_free_bytes{setting="store.data_dir"}': "5x30 50x30",
            'accelerd_filesystem_size_bytes{setting="store.data_dir"}': "100x60",
        },
        (9, 11, 45), {"job": "accelerd", "setting": "store.data_dir"}, "5% of the file system of store.data_dir of a:7434 is free.",
    ),
}


def of_target(series: str) -> str:
    name, _, labels = series.rstrip("}").partition("{")
    return f"{name}{{{','.join(filter(None, [labels, TARGET]))}}}"


def promtool_test(alert: str, case: Case) -> dict[str, object]:
    rule = RULES[alert]
    annotations = {**rule["annotations"], "description": case.description}
    firing = [{"exp_labels": {**rule["labels"], "instance": "a:7434", **case.labels}, "exp_annotations": annotations}]
    expected = zip(case.minutes, ([], firing, []), strict=True)
    return {
        "interval": "1m",
        "input_series": [{"series": of_target(series), "values": values} for series, values in case.series.items()],
        "alert_rule_test": [
            {"alertname": alert, "eval_time": f"{minute}m", "exp_alerts": alerts} for minute, alerts in expected
        ],
    }


def promtool(*arguments: object) -> None:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", RULES)
def test_an_alert_fires_and_clears(alert: str, tmp_path: Path):
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [promtool_test(alert, CASES[alert])]}))
    promtool("test", "rules", file)


@pytest.mark.parametrize("alert", RULES)
def test_an_alert_says_what_to_do(alert: str):
    rule = RULES[alert]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    anchor = rule["annotations"]["runbook_url"].removeprefix("https://github.com/accelerd/accelerd/blob/main/docs/runbooks.md#")
    assert anchor == alert.lower() and f"\n## {alert}\n" in RUNBOOKS.read_text()


def test_every_section_of_the_runbooks_is_of_an_alert():
    assert re.findall(r"^## (Accelerd\w+)", RUNBOOKS.read_text(), re.MULTILINE) == list(RULES)


def commands() -> list[str]:
    return sorted(set(re.findall(r"`(accel(?:ctl|erd) [^`]+)`", RUNBOOKS.read_text())))


@pytest.mark.parametrize("command", commands())
def test_the_programs_know_the_commands_of_the_runbooks(command: str):
    program, *arguments = command.split()
    binary = Path(os.environ["ACCELERD_BIN"]).with_name(program)
    done = subprocess.run([binary, *arguments, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_settings_of_the_runbooks_exist():
    defaults = tomllib.loads((ROOT / "server/config/default.toml").read_text())
    found = re.findall(r"`([a-z]+)\.([a-z_]+)(?: = [^`]*)?`", RUNBOOKS.read_text())
    assert found
    assert [] == [f"{section}.{name}" for section, name in found if name not in defaults[section]]


def test_prometheus_accepts_the_files_of_the_compose_file():
    promtool("check", "rules", ALERTS)
    promtool("check", "config", ROOT / "deploy/prometheus.yaml")


def test_the_compose_file_mounts_alerts_dashboards_and_their_provisioning():
    services = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
    mounts = {}
    for name in ("prometheus", "grafana"):
        for volume in services[name]["volumes"]:
            source, target = volume.split(":")[:2]
            assert not source.startswith(".") or (ROOT / "deploy" / source).exists(), source
            mounts[target] = (ROOT / "deploy" / source).resolve()
    (pattern,) = yaml.safe_load((ROOT / "deploy/prometheus.yaml").read_text())["rule_files"]
    assert mounts[pattern.rpartition("/")[0]] == ALERTS.parent
    (provider,) = yaml.safe_load((ROOT / "deploy/grafana/dashboards/accelerd.yaml").read_text())["providers"]
    assert mounts[provider["options"]["path"]] == ROOT / "helm/accelerd/dashboards"
    (source,) = yaml.safe_load((ROOT / "deploy/grafana/datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
