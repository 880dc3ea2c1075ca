"""Fixtures: Prometheus, which scrapes a daemon by the configuration of the compose file.

With ACCELERD_METRICS, it scrapes a file instead: the metrics that loaded_daemon.py saved on a machine with a GPU.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import loopback
import pytest
import yaml
from loaded_daemon import daemon

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "helm/accelerd/alerts/accelerd.yaml"
METRICS_FILE = os.environ.get("ACCELERD_METRICS")
SCRAPES = 3
TIMEOUT_SECONDS = 60


@contextmanager
def file_server(file: Path) -> Iterator[str]:
    """The address of a server of the metrics in a file."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(file.read_bytes())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()


class Prometheus:
    """Prometheus, with what it has scraped."""

    def __init__(self, address: str) -> None:
        self._api = f"http://{address}/api/v1"

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer."""
        try:
            with urllib.request.urlopen(f"{self._api}/{path}?{urllib.parse.urlencode(parameters)}") as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error

    def query(self, expression: str) -> list[dict[str, Any]]:
        return self.get("query", query=expression)["result"]

    @functools.cached_property
    def labels(self) -> dict[str, set[str]]:
        """The metrics, and the labels of each."""
        found: dict[str, set[str]] = {}
        for series in self.get("series", **{"match[]": '{__name__=~".+"}'}):
            found.setdefault(series["__name__"], set()).update(series)
        return found

    def wait(self) -> None:
        """Wait until it has scraped often enough for rates, and has evaluated the alerts."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < end:
            try:
                counted = self.query('count_over_time(up{job="accelerd"}[1m])')
                groups = self.get("rules")["groups"]
            except (urllib.error.URLError, AssertionError):
                continue
            is_evaluated = all(rule["health"] != "unknown" for group in groups for rule in group["rules"])
            if counted and int(counted[0]["value"][1]) >= SCRAPES and is_evaluated:
                return
        raise AssertionError("Prometheus has not scraped the daemon")


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with file_server(Path(METRICS_FILE)) if METRICS_FILE else daemon(folder) as scraped:
        config = yaml.safe_load((ROOT / "deploy/prometheus.yaml").read_text())
        config["global"] |= {"scrape_interval": "500ms", "evaluation_interval": "500ms", "scrape_timeout": "500ms"}
        config["rule_files"] = [str(ALERTS)]
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [scraped]
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        (address,) = loopback.addresses(1)
        options = {"config.file": folder / "prometheus.yaml", "storage.tsdb.path": folder / "tsdb", "web.listen-address": address}
        command = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
        with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                started = Prometheus(address)
                started.wait()
                yield started
            except AssertionError as error:
                raise AssertionError(f"{error}: {(folder / 'log').read_text()}") from error
            finally:
                process.terminate()
