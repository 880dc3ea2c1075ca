"""A daemon for each document, and a summary of the blocks that do not run."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import blocks
import pytest

PROGRAM = Path(os.environ.get("ACCELERD_BIN", blocks.ROOT / "target/debug/accelerd")).resolve()


class Daemon:
    """A daemon on the CPU, and the addresses that replace those of documents."""

    def __init__(self, folder: Path) -> None:
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
        self.ports = dict(zip(("7433", "7434", "7435", "7436"), (one.getsockname()[1] for one in held), strict=True))
        for one in held:
            one.close()
        grpc, admin, health, http = (f"127.0.0.1:{port}" for port in self.ports.values())
        (folder / "graphs").mkdir()
        settings = {
            "server.admin_listen": admin,
            "server.health_listen": health,
            "http.listen": http,
            "drain.endpoint_delay": "0s",
            "store.snapshot_url": f"file://{folder}/snapshots",
            "models.folders": f"{blocks.ROOT}/kernels/models/tests/encoders",
            "models.graphs": folder / "graphs",
        }
        command = [PROGRAM, "serve", "--listen", grpc, "--backend", "cpu", "--data-dir", folder / "data"]
        command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        self.log = folder / "daemon.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while not self._serves():
            assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.02)

    def _serves(self) -> bool:
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports['7436']}/health")
        try:
            return urllib.request.urlopen(request, timeout=1).status == 200
        except OSError:
            return False

    def end(self) -> None:
        """End it; SIGKILL, as nothing of it is kept."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon"))
    yield daemon
    daemon.end()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    everything = [block for document in [*blocks.DOCUMENTS, *blocks.MODULES] for block in blocks.blocks(document)]
    skipped = [block for block in everything if block.skip]
    terminalreporter.write_line(f"{len(everything) - len(skipped)} blocks of code run, {len(skipped)} do not:")
    for block in skipped:
        terminalreporter.write_line(f"  {block.place} [{block.language}] {block.skip}")
