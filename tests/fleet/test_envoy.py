"""Three daemons behind Envoy, as deploy/envoy configures it: one that is stopped fails no call."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import loopback
import pytest
import yaml
from accelerd import Client

CONFIGURATION = Path(__file__).resolve().parents[2] / "deploy" / "envoy" / "envoy.yaml"
DAEMONS = 3
CALLERS = 8
#: Calls while all daemons serve, while one drains, and after it has ended.
CALLS = 400
START_TIMEOUT = 60.0


class Fleet:
    """Daemons and the address of Envoy in front of them."""

    def __init__(self, daemons: list[subprocess.Popen[bytes]], target: str) -> None:
        self.daemons = daemons
        self.target = target


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet that serves."""
    with ExitStack() as stack:
        daemons = []
        endpoints = []
        for number in range(DAEMONS):
            listen, admin, health = loopback.addresses(3)
            settings = {"listen": listen, "admin_listen": admin, "health_listen": health}
            command = [os.environ["ACCELERD_BIN"], "serve", "--backend", "cpu", "--set", "http.listen="]
            # The time in which Envoy's health checks find the daemon that drains.
            command += ["--set", "drain.endpoint_delay=2s"]
            for name, address in settings.items():
                command += ["--set", f"server.{name}={address}"]
            daemons.append(process(stack, command, tmp_path / f"daemon-{number}"))
            endpoints.append((int(listen.rpartition(":")[2]), int(health.rpartition(":")[2])))
        (target,) = loopback.addresses(1)
        configuration = tmp_path / "envoy.yaml"
        configuration.write_text(yaml.safe_dump(configured(target, endpoints)))
        command = ["envoy", "--config-path", str(configuration), "--disable-hot-restart", "--concurrency", "1"]
        process(stack, command, tmp_path / "envoy")
        with grpc.insecure_channel(target) as channel:
            grpc.channel_ready_future(channel).result(START_TIMEOUT)
        with Client(target, timeout=START_TIMEOUT) as client:
            client.embed(["until a daemon serves"])
        yield Fleet(daemons, target)


def process(stack: ExitStack, command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """A process that ends with the test."""
    started = subprocess.Popen(command, stdout=stack.enter_context(open(log, "wb")), stderr=subprocess.STDOUT)
    stack.callback(started.wait)
    stack.callback(started.kill)
    return started


def configured(target: str, endpoints: list[tuple[int, int]]) -> dict[str, Any]:
    """The configuration, with these addresses in place of those of a cluster."""
    configuration = yaml.safe_load(CONFIGURATION.read_text())
    resources = configuration["static_resources"]
    resources["listeners"][0]["address"]["socket_address"] = socket_address(int(target.rpartition(":")[2]))
    localities = resources["clusters"][0]["load_assignment"]["endpoints"][0]
    localities["lb_endpoints"] = [
        {"endpoint": {"address": {"socket_address": socket_address(port)}, "health_check_config": {"port_value": health}}}
        for port, health in endpoints
    ]
    return configuration


def socket_address(port: int) -> dict[str, Any]:
    return {"address": "127.0.0.1", "port_value": port}


def call_until(target: str, done: Callable[[], bool], answered: threading.Semaphore) -> Counter[str]:
    """Embed texts, one attempt each, until it is done. Returns the number of each outcome."""
    outcomes: Counter[str] = Counter()
    with Client(target, attempts=1, timeout=START_TIMEOUT) as client:
        while not done():
            try:
                client.embed([f"def f_{sum(outcomes.values())}(): ..."])
                outcomes["OK"] += 1
            except Exception as problem:
                outcomes[str(problem)] += 1
            answered.release()
    return outcomes


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_that_ends_fails_no_call(fleet: Fleet, ending: signal.Signals) -> None:
    answered = threading.Semaphore(0)
    over = threading.Event()

    def wait_for_calls() -> None:
        for _ in range(CALLS):
            assert answered.acquire(timeout=START_TIMEOUT)

    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(call_until, fleet.target, over.is_set, answered) for _ in range(CALLERS)]
        try:
            wait_for_calls()
            fleet.daemons[0].send_signal(ending)
            wait_for_calls()
            status = fleet.daemons[0].wait(START_TIMEOUT)
            wait_for_calls()
        finally:
            over.set()
        outcomes = sum((one.result() for one in calls), Counter())
    assert outcomes.keys() == {"OK"} or ending == signal.SIGKILL, outcomes
    assert outcomes["OK"] >= 3 * CALLS - CALLERS, outcomes
    if ending == signal.SIGTERM:
        assert status == 0
    else:
        # Calls that a killed daemon had begun are lost, at most one of each caller.
        assert outcomes.total() - outcomes["OK"] <= CALLERS, outcomes
