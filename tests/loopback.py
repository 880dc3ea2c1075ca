"""A daemon on free ports of loopback, for tests of other programs against it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PORTS = ("SERVER__LISTEN", "SERVER__ADMIN_LISTEN", "SERVER__HEALTH_LISTEN", "HTTP__LISTEN")


def addresses(count: int) -> list[str]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return [f"127.0.0.1:{port}" for port in ports]


@contextmanager
def serve(settings: dict[str, str]) -> Iterator[dict[str, str]]:
    """Start the daemon of ACCELERD_BIN on the CPU, and end it. Yields its settings with its addresses."""
    fixed = {"BACKEND__KIND": "cpu", "DRAIN__ENDPOINT_DELAY": "0s"}
    given = dict(zip(PORTS, addresses(len(PORTS)), strict=True)) | fixed | settings
    environment = {**os.environ, **{f"ACCELERD__{name}": value for name, value in given.items()}}
    process = subprocess.Popen([os.environ["ACCELERD_BIN"], "serve"], env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines = []
    reader = None
    try:
        for line in process.stderr:
            lines.append(line)
            if re.search(r"\bserving\b", line):
                break
        else:
            raise AssertionError("".join(lines))
        # A daemon whose pipe is full would wait for a reader of its log.
        reader = threading.Thread(target=process.stderr.read)
        reader.start()
        yield given
    finally:
        process.terminate()
        process.wait()
        if reader is not None:
            reader.join()
        process.stderr.close()
