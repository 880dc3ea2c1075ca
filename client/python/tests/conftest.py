"""Fixtures: a daemon and the C extension."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import grpc
import pytest
from tensor_reference import Reference, serve

from accelerd import Client

ROOT = Path(__file__).resolve().parents[3]
CLIENT = Path(__file__).resolve().parents[1]
START_TIMEOUT = 60.0


def _program() -> Path | None:
    if named := os.environ.get("ACCELERD_BIN"):
        return Path(named)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / profile / "accelerd" for profile in ("release", "debug")]
    return next((program for program in built if program.exists()), None)


class Daemon:
    """A daemon of the built program, with ports and a data folder that it keeps over restarts."""

    def __init__(self, program: Path, folder: Path) -> None:
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        grpc_port, admin, health = (one.getsockname()[1] for one in held)
        for one in held:
            one.close()
        self.target = f"127.0.0.1:{grpc_port}"
        self._log = folder / "log"
        self._arguments = [program, "serve", "--listen", self.target, "--set", "drain.endpoint_delay=0s"]
        for name, port in {"admin_listen": admin, "health_listen": health}.items():
            self._arguments += ["--set", f"server.{name}=127.0.0.1:{port}"]
        self._arguments += ["--set", f"models.folders={ROOT}/kernels/models/tests/encoders"]
        self._arguments += ["--set", f"store.snapshot_url=file://{folder}/snapshots"]
        self._arguments += ["--data-dir", folder / "data"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return once it serves."""
        with open(self._log, "a") as log:
            self._process = subprocess.Popen(self._arguments, stdout=log, stderr=log)
        channel = grpc.insecure_channel(self.target)
        ready = grpc.channel_ready_future(channel)
        until = time.monotonic() + START_TIMEOUT
        while True:
            assert self._process.poll() is None, self._log.read_text()
            try:
                ready.result(timeout=0.2)
                break
            except grpc.FutureTimeoutError:
                assert time.monotonic() < until, self._log.read_text()
        channel.close()

    def terminate(self) -> int:
        """Send SIGTERM. Returns the exit status."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.terminate()
        return process.wait()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a daemon: ACCELERD_SERVER, or one that is started for the tests."""
    if named := os.environ.get("ACCELERD_SERVER"):
        yield named
        return
    daemon = Daemon(_built_program(), tmp_path_factory.mktemp("daemon"))
    try:
        daemon.start()
        yield daemon.target
    finally:
        daemon.terminate()


def _built_program() -> Path:
    program = _program()
    if program is None:
        pytest.skip("no daemon: set ACCELERD_SERVER or ACCELERD_BIN, or cargo build -p accelerd")
    return program


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon of a test's own, which serves."""
    daemon = Daemon(_built_program(), tmp_path)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.terminate()


@pytest.fixture
def client(server: str) -> Iterator[Client]:
    with Client(server, timeout=30) as client:
        yield client


@pytest.fixture(scope="session")
def node_builder(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The C extension, compiled for this Python even if it is not installed."""
    folder = tmp_path_factory.mktemp("extension")
    script = CLIENT / "build_extension.py"
    done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True)
    if "Python.h" in done.stderr and "there is no" in done.stderr:
        pytest.skip(f"no headers of this Python: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    spec = importlib.util.spec_from_file_location("accelerd._node_builder", done.stdout.strip())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def reference() -> Iterator[tuple[Reference, str]]:
    """A daemon that computes with numpy, and its address."""
    with serve() as served:
        yield served


@pytest.fixture
def local(reference: tuple[Reference, str]) -> Iterator[Client]:
    """A client of it."""
    with Client(reference[1], timeout=10) as client:
        yield client
