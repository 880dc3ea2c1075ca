"""Fixtures: a daemon after a small load, and Prometheus, which scrapes it by the configuration of the compose file.

With ACCELERD_METRICS, Prometheus scrapes a file instead: what `curl -s http://127.0.0.1:7434/metrics` wrote on a machine with a GPU.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import http.server
import ipaddress
import json
import os
import ssl
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
import numpy as np
import pytest
import yaml
from accelerd import Client, Tls
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "helm/accelerd/alerts/accelerd.yaml"
METRICS_FILE = os.environ.get("ACCELERD_METRICS")
TOKEN = "a-token-of-the-monitoring-test"
PRINCIPAL = '[[principal]]\nname = "test"\nrole = "admin"\ntokens = ["sha256:{}"]\n'
SCRAPES = 3
TIMEOUT_SECONDS = 60


def certificate(folder: Path) -> dict[str, str]:
    """Write a certificate of 127.0.0.1, which is its own authority, and return its settings."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "monitoring")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + datetime.timedelta(days=90))
    builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    signed = builder.sign(key, hashes.SHA256())
    (folder / "tls.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "tls.key").write_bytes(private)
    return {"TLS__CERTIFICATE": str(folder / "tls.crt"), "TLS__PRIVATE_KEY": str(folder / "tls.key")}


def load(given: dict[str, str], folder: Path) -> None:
    """Make calls over gRPC and HTTP, some of which are refused."""
    tls = Tls(ca=folder / "tls.crt")
    with Client(f"https://{given['SERVER__LISTEN']}", timeout=30, tls=tls, token=TOKEN) as client:
        client.embed(["open a socket", "close a file"])
        client.parse(["x = 1\n", "x =\n"])
        collection = client.create_collection("texts", model="builtin", text_field="body")
        collection.upsert([1, 2], texts=["open a socket", "close a file"], payloads=[{"body": "open"}, {"body": "close"}])
        collection.search(texts=["open"], k=1)
        (client.tensor(np.ones((2, 2), np.float32)) + 1).numpy()
    context = ssl.create_default_context(cafile=folder / "tls.crt")
    for content_type, token in [("text/plain", TOKEN), ("application/json", TOKEN), ("application/json", "wrong")]:
        headers = {"content-type": content_type, "authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"https://{given['HTTP__LISTEN']}/embed", b'{"inputs": "a"}', headers)
        try:
            urllib.request.urlopen(request, context=context).close()
        except urllib.error.HTTPError as refusal:
            assert refusal.code in (401, 415)


@contextmanager
def daemon(folder: Path) -> Iterator[str]:
    """The address of the metrics of a daemon with TLS, principals and durable collections."""
    principals = folder / "principals.toml"
    principals.write_text(PRINCIPAL.format(hashlib.sha256(TOKEN.encode()).hexdigest()))
    principals.chmod(0o600)
    settings = {"AUTH__PRINCIPALS": str(principals), "STORE__DATA_DIR": str(folder / "data"), **certificate(folder)}
    with loopback.serve(settings) as given:
        load(given, folder)
        yield given["SERVER__ADMIN_LISTEN"]


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
