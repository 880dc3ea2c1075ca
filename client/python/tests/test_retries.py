"""Retries by a clock that only sleeping advances, against daemons that are scripted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from accelerd import BusyError, Client, UnavailableError, _aio_call, _blocking_call, _timeout
from accelerd._proto import embed_pb2, similarity_pb2
from accelerd._retry import RetryBudget
from accelerd.aio import AsyncClient

REFUSED = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Connection refused"


class Failed(grpc.RpcError):
    """The error of an attempt."""

    def __init__(self, code: grpc.StatusCode, message: str, retry_after: float | None = None) -> None:
        self._code, self._message, self._retry_after = code, message, retry_after

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._message

    def trailing_metadata(self) -> list[tuple[str, bytes]]:
        if self._retry_after is None:
            return []
        delay = duration_pb2.Duration()
        delay.FromMicroseconds(round(self._retry_after * 1e6))
        packed = any_pb2.Any()
        packed.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        status = status_pb2.Status(code=self._code.value[0], message=self._message, details=[packed])
        return [("grpc-status-details-bin", status.SerializeToString())]


class Scenario:
    """The clock, and the daemon: a function of the time that answers a call or raises."""

    def __init__(self, answer: Callable[[Scenario], Any]) -> None:
        self.time = 1000.0
        self.answer = answer
        self.attempts: list[float] = []

    def pause(self, seconds: float, unconnected: list[Any]) -> None:
        self.time += seconds

    async def pause_async(self, seconds: float, unconnected: list[Any]) -> None:
        self.time += seconds

    def elapsed(self) -> float:
        return self.time - 1000.0

    def attempt(self) -> Any:
        self.attempts.append(self.elapsed())
        return self.answer(self)

    def unary(self, method: Any) -> Send:
        return Send(self)


class Answered:
    """The call of an answer."""

    def __init__(self, message: Any) -> None:
        self._message = message

    def __await__(self) -> Any:
        async def message() -> Any:
            if isinstance(self._message, Exception):
                raise self._message
            return self._message

        return message().__await__()


class AsyncAnswered(Answered):
    async def initial_metadata(self) -> tuple[()]:
        return ()


class BlockingAnswered(Answered):
    def initial_metadata(self) -> tuple[()]:
        return ()


class Send:
    """A method of both transports."""

    def __init__(self, scenario: Scenario) -> None:
        self._world = scenario

    def with_call(self, *_: Any, **__: Any) -> tuple[Any, BlockingAnswered]:
        return self._world.attempt(), BlockingAnswered(None)

    def __call__(self, *_: Any, **__: Any) -> AsyncAnswered:
        try:
            return AsyncAnswered(self._world.attempt())
        except grpc.RpcError as failed:
            return AsyncAnswered(failed)


Ask = Callable[..., Any]


@pytest.fixture(params=["blocking", "asyncio"])
def ask(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """A function that makes a call in a scenario: `ask(scenario, lambda client: client.models())`."""

    def made(scenario: Scenario, call: Callable[[Any], Any], **settings: Any) -> Any:
        monkeypatch.setattr(_timeout, "monotonic", lambda: scenario.time)
        monkeypatch.setattr(_blocking_call, "pause", scenario.pause)
        monkeypatch.setattr(_aio_call, "pause", scenario.pause_async)
        client = (Client if request.param == "blocking" else AsyncClient)("localhost:1", **settings)
        client._caller._connections.unary = scenario.unary
        if request.param == "blocking":
            return call(client)

        async def awaited() -> Any:
            return await call(client)

        return asyncio.run(awaited())

    return made


def away_until(seconds: float, message: Any = None, *, code: Any = grpc.StatusCode.UNAVAILABLE, text: str = REFUSED):
    """A daemon that fails until a time."""

    def answer(scenario: Scenario) -> Any:
        if scenario.elapsed() < seconds:
            raise Failed(code, text)
        return embed_pb2.ListModelsResponse() if message is None else message

    return answer


def test_a_call_survives_a_restart_of_the_daemon(ask: Ask) -> None:
    scenario = Scenario(away_until(30.0))
    assert ask(scenario, lambda client: client.models()) == []
    assert 30 <= scenario.elapsed() < 33 and len(scenario.attempts) > 20


def test_a_broken_connection_is_retried_whatever_its_code(ask: Ask) -> None:
    for code, text in [
        (grpc.StatusCode.UNKNOWN, "Stream removed"),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed"),
    ]:
        scenario = Scenario(away_until(10.0, code=code, text=text))
        assert ask(scenario, lambda client: client.models()) == []
        assert len(scenario.attempts) > 5


@pytest.mark.parametrize(("timeout", "ends"), [(20.0, 20.0), (300.0, 300.0), (math.inf, 60.0)])
def test_calls_are_retried_until_their_timeout_and_without_one_for_a_minute(
    ask: Ask, timeout: float, ends: float
) -> None:
    scenario = Scenario(away_until(1e9))
    with pytest.raises(UnavailableError, match="Connection refused"):
        ask(scenario, lambda client: client.models(timeout=timeout))
    assert ends - 2 <= scenario.elapsed() < ends


def test_what_must_not_run_twice_is_repeated_only_if_it_did_not_run(ask: Ask) -> None:
    created = similarity_pb2.CreateCollectionResponse()
    scenario = Scenario(away_until(10.0, created))
    assert ask(scenario, lambda client: _create(client)) == "code"
    assert scenario.elapsed() >= 10

    lost = Scenario(away_until(10.0, created, text="Socket closed"))
    with pytest.raises(UnavailableError, match="Socket closed"):
        ask(lost, lambda client: _create(client))
    assert len(lost.attempts) == 1


def _create(client: Any) -> Any:
    made = client.create_collection("code", dimensions=2)
    if isinstance(client, Client):
        return made.name

    async def name() -> str:
        return (await made).name

    return name()


def test_the_delay_of_retry_info_is_a_lower_bound(ask: Ask) -> None:
    def answer(scenario: Scenario) -> Any:
        if scenario.elapsed() < 6:
            raise Failed(grpc.StatusCode.RESOURCE_EXHAUSTED, "lane is full", retry_after=2.5)
        return embed_pb2.ListModelsResponse()

    scenario = Scenario(answer)
    assert ask(scenario, lambda client: client.models()) == []
    gaps = [later - earlier for earlier, later in zip(scenario.attempts, scenario.attempts[1:], strict=False)]
    assert len(gaps) in (2, 3) and all(2.5 <= gap < 4.5 for gap in gaps)


def test_a_delay_beyond_the_timeout_and_exhaustion_without_one_are_final(ask: Ask) -> None:
    for retry_after in (100.0, None):

        def answer(scenario: Scenario, retry_after: float | None = retry_after) -> Any:
            raise Failed(grpc.StatusCode.RESOURCE_EXHAUSTED, "lane is full", retry_after)

        scenario = Scenario(answer)
        with pytest.raises(BusyError):
            ask(scenario, lambda client: client.models(timeout=60))
        assert len(scenario.attempts) == 1


def test_a_failing_daemon_gets_few_retries(ask: Ask) -> None:
    scenario = Scenario(away_until(1e9, text="no healthy upstream"))

    def calls(client: Any) -> Any:
        if isinstance(client, Client):
            return [_failed(client) for _ in range(200)]

        async def one() -> None:
            with pytest.raises(UnavailableError):
                await client.models(timeout=2)

        return asyncio.gather(*(one() for _ in range(200)))

    def _failed(client: Client) -> None:
        with pytest.raises(UnavailableError):
            client.models(timeout=2)

    ask(scenario, calls)
    retries = len(scenario.attempts) - 200
    allowed = 0.2 * 200 + RetryBudget.RESERVE + RetryBudget.PER_SECOND * (scenario.elapsed() + 2)
    assert 0 < retries <= allowed, f"{retries} retries in {scenario.elapsed()} s"


def test_a_budget_spreads_what_exceeds_it_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    time = 0.0
    monkeypatch.setattr(_timeout, "monotonic", lambda: time)
    budget = RetryBudget()
    for _ in range(1000):
        budget.deposit()
    free = 0
    while budget.withdraw() < 1e-6:
        free += 1
    assert free in (209, 210)
    assert budget.withdraw() == pytest.approx(2.0, abs=1e-6)
    budget.put_back()
    time = 3.0
    assert budget.withdraw() == pytest.approx(0.0, abs=1e-6)


def test_attempts_can_be_bounded(ask: Ask) -> None:
    scenario = Scenario(away_until(1e9))
    with pytest.raises(UnavailableError):
        ask(scenario, lambda client: client.models(), attempts=3)
    assert len(scenario.attempts) == 3
