"""Calls over a Unix socket."""

from __future__ import annotations

import subprocess
from pathlib import Path

import grpc
import pytest
from conftest import START_TIMEOUT, _program

from accelerd import Client


@pytest.mark.parametrize("scheme", ["unix://", "unix:"])
def test_a_unix_socket_serves_calls(tmp_path: Path, scheme: str) -> None:
    program = _program()
    if program is None:
        pytest.skip("no daemon: set ACCELERD_BIN, or cargo build -p accelerd")
    target = f"{scheme}{tmp_path}/socket"
    arguments: list[str | Path] = [
        program,
        "serve",
        "--set",
        f"server.uds_path={tmp_path}/socket",
        "--set",
        "drain.endpoint_delay=0s",
    ]
    for port in ("listen", "admin_listen", "health_listen"):
        arguments += ["--set", f"server.{port}=127.0.0.1:0"]
    with open(tmp_path / "log", "w") as log:
        daemon = subprocess.Popen(arguments, stdout=log, stderr=log)
    try:
        with grpc.insecure_channel(target) as channel:
            grpc.channel_ready_future(channel).result(START_TIMEOUT)
        with Client(target, timeout=START_TIMEOUT) as client:
            assert client.embed(["a"]).shape == (1, 256)
    finally:
        daemon.terminate()
        daemon.wait()
