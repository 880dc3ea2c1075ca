"""Calls of both clients while a daemon stops and starts again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import Daemon

from accelerd import Client, UnavailableError
from accelerd.aio import AsyncClient

TEXTS = ["open a socket", "parse a date"]
SQUARE = "def square(x: float) -> float:\n    return x * x\n"


def test_calls_survive_a_restart_of_the_daemon(daemon: Daemon) -> None:
    async def embed() -> np.ndarray:
        async with AsyncClient(daemon.target) as client:
            return await client.embed(TEXTS)

    def upload() -> list[float]:
        with Client(daemon.target) as client:
            return client.upload([1.0, 2.0]).numpy().tolist()

    def verify() -> bool:
        with Client(daemon.target) as client:
            return bool(client.verify(SQUARE, SQUARE, count=1000))

    with Client(daemon.target) as client, ThreadPoolExecutor(16) as threads:
        before = client.embed(TEXTS)
        assert daemon.terminate() == 0
        with pytest.raises(UnavailableError):
            client.models(timeout=0.3)
        waiting = [threads.submit(client.embed, TEXTS) for _ in range(8)]
        waiting.append(threads.submit(asyncio.run, embed()))
        streams = [threads.submit(upload), threads.submit(verify)]
        daemon.start()
        assert [call.result(timeout=60) for call in streams] == [[1.0, 2.0], True]
        for call in waiting:
            np.testing.assert_array_equal(call.result(timeout=60), before)


#: Has no other client or thread, so that nothing but its waiting call makes gRPC connect.
CHILD = """
import sys
from accelerd import Client, UnavailableError
with Client(sys.argv[1]) as client:
    try:
        client.models(timeout=0.3)
    except UnavailableError:
        print("unavailable", flush=True)
    print(len(client.models(timeout=50)), flush=True)
"""


def test_a_process_that_calls_before_the_daemon_starts_is_answered(daemon: Daemon) -> None:
    assert daemon.terminate() == 0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHILD, daemon.target]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "unavailable\n"
        daemon.start()
        assert int(child.stdout.readline()) > 0
    assert child.returncode == 0
