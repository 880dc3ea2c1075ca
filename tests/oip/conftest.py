"""Fixtures: daemons with an encoder, a reranker and a folder of graphs, and tritonclient over both transports."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import loopback
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
from accelerd import Client

ROOT = Path(__file__).resolve().parents[2]
ENCODERS = ROOT / "kernels/models/tests/encoders"
ENCODER, RERANKER = "bert", "org/reranker"
READER = "token-of-a-reader"
TRANSPORTS = {"http": (tritonclient.http, tritonclient.http.aio), "grpc": (tritonclient.grpc, tritonclient.grpc.aio)}
PARAMETERS = [f"{transport}{kind}" for transport in TRANSPORTS for kind in ("", "-aio")]


@dataclass(frozen=True)
class Daemon:
    """A daemon that serves."""

    http: str
    grpc: str
    admin: str
    graphs: Path


class Triton:
    """A client of tritonclient: blocking, or that of asyncio, run to the end for each call."""

    def __init__(self, kind: str, daemon: Daemon) -> None:
        self.kind = kind
        self.transport, _, aio = kind.partition("-")
        self.types, aio_module = TRANSPORTS[self.transport]
        self.is_aio = bool(aio)
        self._module = aio_module if aio else self.types
        self._address = daemon.http if self.transport == "http" else daemon.grpc

    def __getattr__(self, method: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if not self.is_aio:
                with self._module.InferenceServerClient(self._address) as client:
                    return getattr(client, method)(*arguments, **named)

            async def run() -> Any:
                async with self._module.InferenceServerClient(self._address) as client:
                    return await getattr(client, method)(*arguments, **named)

            return asyncio.run(run())

        return call

    def input(self, name: str, array: Any, datatype: str, **options: Any) -> Any:
        made = self.types.InferInput(name, list(array.shape), datatype)
        made.set_data_from_numpy(array, **options)
        return made

    def plain(self, described: Any) -> Any:
        """What a call described, in the form of HTTP's JSON."""
        if self.transport == "http":
            return described
        from google.protobuf.json_format import MessageToDict

        found = MessageToDict(described)
        for tensor in [*found.get("inputs", []), *found.get("outputs", [])]:
            tensor["shape"] = [int(extent) for extent in tensor["shape"]]
        return found.get("models", found)


@contextmanager
def serve(graphs: Path, **settings: str) -> Iterator[Daemon]:
    """Start a daemon on the CPU, and end it."""
    encoder = f'{{name = "{ENCODER}", path = "{ENCODERS}/bert"}}'
    reranker = f'{{name = "reranker", path = "{ENCODERS}/reranker-bert", aliases = ["{RERANKER}"]}}'
    models = {"MODELS__PRELOAD": f"[{encoder}, {reranker}]", "MODELS__GRAPHS": str(graphs)}
    with loopback.serve({**models, **settings}) as given:
        yield Daemon(given["HTTP__LISTEN"], given["SERVER__LISTEN"], given["SERVER__ADMIN_LISTEN"], graphs)


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with serve(tmp_path_factory.mktemp("graphs")) as daemon:
        yield daemon


def limited(kind: str) -> str:
    """The token of a principal with quotas."""
    return f"token-of-a-limited-caller-{kind}"


def principal(token: str, limits: str) -> str:
    digest = hashlib.sha256(token.encode()).hexdigest()
    return f'[[principal]]\nname = "{token}"\ntokens = ["sha256:{digest}"]\nrole = "read"\n{limits}'


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that asks for a token. One principal for each kind of client may make one call of less than 64 KiB, of one model."""
    folder = tmp_path_factory.mktemp("auth")
    principals = folder / "principals.toml"
    limits = f'requests_per_second = 0.001\nbytes_in_flight = "64KiB"\nmodels = ["{ENCODER}"]\n'
    entries = {READER: "", **{token: limits for kind in PARAMETERS for token in (limited(kind), limited(kind) + "-other")}}
    principals.write_text("".join(principal(token, limits) for token, limits in entries.items()))
    principals.chmod(0o600)
    with serve(folder, AUTH__PRINCIPALS=str(principals)) as daemon:
        yield daemon


@pytest.fixture(params=PARAMETERS)
def triton(request: pytest.FixtureRequest, daemon: Daemon) -> Triton:
    return Triton(request.param, daemon)


@pytest.fixture(params=PARAMETERS)
def locked_triton(request: pytest.FixtureRequest, locked: Daemon) -> Triton:
    return Triton(request.param, locked)


@pytest.fixture(scope="session")
def client(daemon: Daemon) -> Iterator[Client]:
    """The client over accelerd's own protocol."""
    with Client(daemon.grpc, timeout=30) as client:
        yield client
