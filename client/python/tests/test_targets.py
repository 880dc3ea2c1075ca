"""Clients of several daemons."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from test_calls import headers_of_a_call

from accelerd import AccelerdError, Client
from accelerd._proto import embed_pb2, embed_pb2_grpc
from accelerd.aio import AsyncClient


class Named(embed_pb2_grpc.EmbedServiceServicer):
    """Answers with its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ListModels(self, request, context):  # noqa: N802
        return embed_pb2.ListModelsResponse(models=[embed_pb2.Model(name=self.name)])


@pytest.fixture
def daemons() -> Iterator[list[str]]:
    """The addresses of two daemons, `one` and `two`."""
    servers, addresses = [], []
    for name in ("one", "two"):
        server = grpc.server(ThreadPoolExecutor(2))
        embed_pb2_grpc.add_EmbedServiceServicer_to_server(Named(name), server)
        addresses.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        server.start()
        servers.append(server)
    yield addresses
    for server in servers:
        server.stop(None)


@pytest.fixture
def dead() -> str:
    """An address that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        return f"127.0.0.1:{held.getsockname()[1]}"


def names(target: Any, count: int) -> Counter[str]:
    with Client(target, timeout=20) as client:
        return Counter(client.models()[0].name for _ in range(count))


def test_calls_take_turns_between_the_addresses_of_a_list(daemons: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert names(daemons, 8) == {"one": 4, "two": 4}
    assert names(", ".join(daemons), 8) == {"one": 4, "two": 4}
    monkeypatch.setenv("ACCELERD_SERVER", ",".join(f"http://{one}" for one in daemons))
    assert names(None, 8) == {"one": 4, "two": 4}


def test_a_daemon_that_is_away_costs_no_call(daemons: list[str], dead: str) -> None:
    assert names([daemons[0], dead, daemons[1]], 30).total() == 30

    async def of_asyncio() -> int:
        async with AsyncClient([dead, *daemons], timeout=20) as client:
            return len(await asyncio.gather(*(client.models() for _ in range(30))))

    assert asyncio.run(of_asyncio()) == 30


def test_a_daemon_that_could_not_be_reached_rests(daemons: list[str], dead: str) -> None:
    with Client([dead, daemons[0]], timeout=20) as client:
        connections = client._caller._connections
        client.models()
        client.models()
        assert list(connections._rests_until) == [0]
        resting = connections._rests_until[0]
        for _ in range(10):
            client.models()
        assert connections._rests_until == {0: resting}, "it was asked again"


def test_the_authority_of_a_list_of_grpc_is_its_first_address() -> None:
    def call(target: str) -> None:
        with Client(f"ipv4:{target},{target}", timeout=2, attempts=1) as client, pytest.raises(AccelerdError):
            client.models()

    headers = headers_of_a_call(call)
    assert b"127.0.0.1:" in headers and b"," not in headers.partition(b"127.0.0.1:")[2][:20]


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ([], ValueError, "target: expected an address such as 'localhost:7433', or several, got none"),
        (["a:1", 5], TypeError, "target: expected an address such as"),
        ({"a:1": 2}, TypeError, "target: expected an address such as"),
        (["a:1", ""], ValueError, "target: expected host:port"),
        ("a:1,b:70000", ValueError, "target: expected host:port"),
        (["https://a:1", "b:1"], ValueError, "target: expected https:// for all addresses or for none"),
    ],
)
def test_lists_that_make_no_sense_are_refused(target: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Client(target)


@pytest.mark.parametrize("target", [["localhost:1", "10.0.0.1:1"], "ipv4:127.0.0.1:1,10.0.0.1:1", "ipv6:[::2]:1"])
def test_a_token_is_sent_in_plaintext_only_if_all_addresses_are_local(target: Any) -> None:
    with pytest.raises(ValueError, match="token: refusing to send it"):
        Client(target, token="secret")


@pytest.mark.parametrize("target", [["localhost:1", "127.0.0.1:2"], "ipv4:127.0.0.1:1,127.0.0.2:2", "ipv6:[::1]:1"])
def test_a_token_may_be_sent_to_this_machine(target: Any) -> None:
    Client(target, token="secret").close()
