"""A daemon with all-MiniLM-L6-v2 loaded, and `accelctl` as its client."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
MODEL = TARGET / "models" / "minilm"
START_TIMEOUT = 60.0


class Ctl:
    """Runs `accelctl` against a daemon."""

    def __init__(self, binaries: Path, address: str) -> None:
        self._program = binaries / "accelctl"
        self._environment = {**os.environ, "ACCELERD_SERVER": f"http://{address}"}

    def __call__(self, *words: str | Path) -> Any:
        """Runs a command; returns its JSON output."""
        command = [self._program, "--json", *words]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@contextlib.contextmanager
def running() -> Iterator[Ctl]:
    """Runs a daemon of the release build within a `with` block."""
    binaries = Path(os.environ.get("ACCELERD_BIN_DIR", TARGET / "release"))
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    main, admin, health = (f"127.0.0.1:{one.getsockname()[1]}" for one in held)
    for one in held:
        one.close()
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "accelerd.toml"
        preload = f'preload = [{{ name = "minilm", path = {json.dumps(str(MODEL))} }}]'
        settings.write_text(f"[models]\n{preload}\n[drain]\nendpoint_delay = \"0s\"\n")
        flags = ["--config", settings, "--listen", main]
        flags += ["--set", f"server.admin_listen={admin}", "--set", f"server.health_listen={health}"]
        with open(Path(folder) / "log", "w+") as log:
            daemon = subprocess.Popen([binaries / "accelerd", "serve", *flags], stdout=log, stderr=log)
            try:
                wait_until_ready(binaries, daemon, health, Path(folder) / "log")
                yield Ctl(binaries, main)
            finally:
                daemon.terminate()
                daemon.wait()


def wait_until_ready(binaries: Path, daemon: subprocess.Popen[bytes], health: str, log: Path) -> None:
    """Polls the health check until the daemon is ready."""
    until = time.monotonic() + START_TIMEOUT
    ask = [binaries / "accelerd", "health", "--address", health, "--service", "readiness"]
    while subprocess.run(ask, capture_output=True).returncode != 0:
        assert daemon.poll() is None and time.monotonic() < until, log.read_text()
