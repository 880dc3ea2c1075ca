"""Daemons for the suites of all clients, and the environment that tells of them."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from certificates import Authority
from loopback import PORTS, addresses, serve

CASES = Path(__file__).with_name("cases.json")
# The daemon is away for a second after it ended.
SUPERVISOR = """
trap 'kill -TERM $daemon; exit' TERM
while :; do
    "$ACCELERD_BIN" serve 2>> "$LOG" & daemon=$!
    echo $daemon > "$PID"
    wait $daemon
    sleep 1
done
"""


@contextmanager
def restartable(folder: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Start a daemon that is started again after its end. Yields its settings, and a command that kills it."""
    settings = dict(zip(PORTS, addresses(len(PORTS)), strict=True)) | {
        "BACKEND__KIND": "cpu",
        "DRAIN__ENDPOINT_DELAY": "0s",
        # The suite of a browser is a page of another origin.
        "HTTP__ORIGINS": "*",
    }
    pid = folder / "pid"
    environment = {f"ACCELERD__{name}": value for name, value in settings.items()}
    environment |= {"LOG": str(folder / "log"), "PID": str(pid)}
    supervisor = subprocess.Popen(["bash", "-c", SUPERVISOR], env={**os.environ, **environment})
    try:
        wait_for(settings["SERVER__LISTEN"], supervisor)
        killed = f"kill -KILL $(cat '{pid}') && while kill -0 $(cat '{pid}') 2> /dev/null; do :; done"
        yield settings, killed
    finally:
        supervisor.terminate()
        supervisor.wait()


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a port accepts connections."""
    host, port = address.split(":")
    while process.poll() is None:
        try:
            socket.create_connection((host, int(port))).close()
            return
        except ConnectionRefusedError:
            pass
    raise AssertionError("the daemon ended")


@contextmanager
def protected(folder: Path) -> Iterator[dict[str, str]]:
    """Start a daemon with TLS and a token. Yields the variables that name them."""
    authority = Authority()
    issued = authority.issue("localhost", "127.0.0.1")
    files = {"ca.pem": authority.certificate, "tls.crt": issued.certificate, "tls.key": issued.key}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    created = subprocess.run([os.environ["ACCELERD_BIN"], "token", "create"], capture_output=True, text=True, check=True)
    token, hashed = created.stdout.split()
    principals = folder / "principals.toml"
    principals.write_text(f'[[principal]]\nname = "golden"\ntokens = ["{hashed}"]\nrole = "write"\ncollections = ["*"]\n')
    principals.chmod(0o600)
    settings = {
        "TLS__CERTIFICATE": str(folder / "tls.crt"),
        "TLS__PRIVATE_KEY": str(folder / "tls.key"),
        "AUTH__PRINCIPALS": str(principals),
    }
    with serve(settings) as served:
        port = served["SERVER__LISTEN"].rpartition(":")[2]
        yield {
            "ACCELERD_GOLDEN_TLS_TARGET": f"https://localhost:{port}",
            "ACCELERD_GOLDEN_CA": str(folder / "ca.pem"),
            "ACCELERD_GOLDEN_TOKEN": token,
        }


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables of the suites."""
    plaintext, tls = tmp_path_factory.mktemp("plaintext"), tmp_path_factory.mktemp("tls")
    with restartable(plaintext) as (settings, killed), protected(tls) as variables:
        yield variables | {
            "ACCELERD_GOLDEN_CASES": str(CASES),
            "ACCELERD_GOLDEN_TARGET": f"http://{settings['SERVER__LISTEN']}",
            "ACCELERD_GOLDEN_HTTP": f"http://{settings['HTTP__LISTEN']}",
            "ACCELERD_GOLDEN_RESTART": killed,
        }
