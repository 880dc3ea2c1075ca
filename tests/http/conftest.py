"""Fixtures: daemons with small models, and what the client over gRPC gets from them."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import loopback
import numpy as np
import pytest
from accelerd import Client

ROOT = Path(__file__).resolve().parents[2]
ENCODERS = ROOT / "kernels/models/tests/encoders"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ENCODER, RERANKER = "org/bert", "org/reranker"
READER, WRITER = "token-of-a-reader", "token-of-a-writer"

# Libraries report nothing to their makers.
os.environ.update(HAYSTACK_TELEMETRY_ENABLED="False", LANGSMITH_TRACING="false", NO_PROXY="127.0.0.1")
# The table of cl100k_base, which tiktoken would download, is part of llama-index.
_CORE = importlib.util.find_spec("llama_index.core")
assert _CORE is not None and _CORE.origin is not None
os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(_CORE.origin).parent / "_static/tiktoken_cache")


@dataclass(frozen=True)
class Daemon:
    """A daemon that serves."""

    http: str
    grpc: str

    @property
    def url(self) -> str:
        return f"http://{self.http}"

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"


@contextmanager
def serve(**settings: str) -> Iterator[Daemon]:
    """Start a daemon on the CPU, and end it."""
    models = (
        f'[{{name = "bert", path = "{ENCODERS}/bert", aliases = ["{ENCODER}", "minilm"]}}, '
        f'{{name = "reranker", path = "{ENCODERS}/reranker-bert", aliases = ["{RERANKER}"]}}]'
    )
    with loopback.serve({"MODELS__PRELOAD": models, "HTTP__MODEL": "bert", **settings}) as given:
        yield Daemon(given["HTTP__LISTEN"], given["SERVER__LISTEN"])


@pytest.fixture(scope="session")
def daemon() -> Iterator[Daemon]:
    with serve() as daemon:
        yield daemon


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that asks for tokens, and takes messages of at most 64 KiB."""
    principals = tmp_path_factory.mktemp("auth") / "principals.toml"
    text = ""
    for name, token, role in [("reader", READER, "read"), ("writer", WRITER, "write")]:
        digest = hashlib.sha256(token.encode()).hexdigest()
        text += f'[[principal]]\nname = "{name}"\ntokens = ["sha256:{digest}"]\nrole = "{role}"\n'
    principals.write_text(text)
    principals.chmod(0o600)
    with serve(AUTH__PRINCIPALS=str(principals), SERVER__MAX_MESSAGE_BYTES="64KiB") as daemon:
        yield daemon


@pytest.fixture(scope="session")
def client(daemon: Daemon) -> Iterator[Client]:
    """The client over gRPC."""
    with Client(daemon.grpc, timeout=30) as client:
        yield client


Node = Callable[..., str]


@pytest.fixture(scope="session")
def node() -> Node:
    """Runs a module with OpenAI's SDK in Node, which the environment of `tests/run` has, and returns its output."""
    folder = TARGET.absolute() / "http/node"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).parent / "node/package.json", folder)

    def run(*command: str, **environment: str) -> str:
        done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run_module(text: str, **environment: str) -> str:
        (folder / "module.mjs").write_text(text)
        return run("node", "module.mjs", **environment)

    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline")
    return run_module


def bits(vectors: Any) -> list[Any]:
    """The bits of vectors, as f32."""
    bits: list[Any] = np.asarray(vectors, np.float32).view(np.uint32).tolist()
    return bits


#: Texts that the models of the tests tell apart, and some that are hard to transport.
TEXTS = ["a b c", "def the", "c b a", "x " * 500, 'é "quoted" \\ \n\t 漢字 🎉 \u2028 \x7f', " ", "a b c"]
DOCUMENTS = ["a b c", "date of the e", "x y z", "def the", "date"]
