"""A daemon with TLS, principals and durable collections, after a small load.

`python3 tests/monitoring/loaded_daemon.py FILE` starts the daemon of ACCELERD_BIN on GPUs and writes its metrics to a file, with which
ACCELERD_METRICS has the tests check the queries of GPUs elsewhere.
"""

from __future__ import annotations

import hashlib
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import loopback
import numpy as np
from accelerd import Client, Tls

TOKEN = "a-token-of-the-monitoring-test"
PRINCIPAL = '[[principal]]\nname = "test"\nrole = "admin"\ntokens = ["sha256:{}"]\n'


def certificate(folder: Path) -> dict[str, str]:
    """Write a certificate of 127.0.0.1, which is its own authority, and return its settings."""
    files = {"TLS__CERTIFICATE": str(folder / "tls.crt"), "TLS__PRIVATE_KEY": str(folder / "tls.key")}
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 90 -subj /CN=monitoring"
    outputs = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", files["TLS__CERTIFICATE"], "-keyout", files["TLS__PRIVATE_KEY"]]
    subprocess.run([*command.split(), *outputs], check=True, capture_output=True)
    return files


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
def daemon(folder: Path, backend: str = "cpu") -> Iterator[str]:
    """The address of the metrics of the daemon."""
    principals = folder / "principals.toml"
    principals.write_text(PRINCIPAL.format(hashlib.sha256(TOKEN.encode()).hexdigest()))
    principals.chmod(0o600)
    settings = {"BACKEND__KIND": backend, "AUTH__PRINCIPALS": str(principals), "STORE__DATA_DIR": str(folder / "data")}
    with loopback.serve({**settings, **certificate(folder)}) as given:
        load(given, folder)
        yield given["SERVER__ADMIN_LISTEN"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, daemon(Path(folder), "cuda") as address:
        urllib.request.urlretrieve(f"http://{address}/metrics", sys.argv[1])


if __name__ == "__main__":
    main()
