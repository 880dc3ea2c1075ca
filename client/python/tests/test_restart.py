"""Calls of both clients while a daemon stops and starts again."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import Daemon

from accelerd import Client, UnavailableError
from accelerd.aio import AsyncClient

TEXTS = ["open a socket", "parse a date"]


def test_calls_survive_a_restart_of_the_daemon(daemon: Daemon) -> None:
    async def embed() -> np.ndarray:
        async with AsyncClient(daemon.target) as client:
            return await client.embed(TEXTS)

    with Client(daemon.target) as client, ThreadPoolExecutor() as threads:
        before = client.embed(TEXTS)
        assert daemon.terminate() == 0
        with pytest.raises(UnavailableError):
            client.models(timeout=0.3)
        waiting = [threads.submit(client.embed, TEXTS) for _ in range(8)]
        waiting.append(threads.submit(asyncio.run, embed()))
        daemon.start()
        for call in waiting:
            np.testing.assert_array_equal(call.result(timeout=60), before)
