"""Compares calls over HTTP with gRPC and with a bare handler of axum, on the same cores in one run.

    python3 http_cost.py --bin FOLDER [--cores 0,1] [--rounds 3] [--seconds 5]

Needs `PYTHONPATH=client/python/src`. FOLDER has accelerd and the examples `load` and `http_load`, of release builds. Prints medians, and the least and greatest of the rounds.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from accelerd._methods import EmbedService, TensorService

TEXT = "def parse_{}(value): return json(value)"
VECTORS = 10_000
LARGE_BODY = 64 << 20


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return held.getsockname()[1]


class Peer:
    """A process that serves on a port until the end of the run."""

    def __init__(self, command: list[str], port: int) -> None:
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"{command[0]} ended")
                time.sleep(0.05)


def load(command: list[str]) -> tuple[float, float]:
    """Calls a second, and the 99th percentile in milliseconds, as the examples print them."""
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate = re.search(r"([\d.,]+) (?:calls|requests)/s", output)
    tail = re.search(r"p99 ([\d.]+)(µs|ms|s)?", output)
    if not rate or not tail:
        sys.exit(f"unexpected output: {output}")
    scale = {"µs": 1e-3, "s": 1e3}.get(tail[2], 1.0)
    return float(rate[1].replace(",", "")), float(tail[1]) * scale


def summary(values: list[float], digits: int = 1) -> str:
    least, most = min(values), max(values)
    return f"{statistics.median(values):,.{digits}f} ({least:,.{digits}f} to {most:,.{digits}f})"


def post(port: int, path: str, body: bytes, kind: str = "application/json") -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", path, body, {"content-type": kind})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        sys.exit(f"{path}: {answer.status} {content[:300]!r}")
    return content


def timed(action: object, rounds: int) -> tuple[str, int]:
    times, size = [], 0
    for _ in range(rounds):
        start = time.perf_counter()
        size = len(action())  # type: ignore[operator]
        times.append((time.perf_counter() - start) * 1e3)
    return summary(times), size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--cores", default="0,1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {int(core) for core in arguments.cores.split(",")})
    folder = arguments.bin
    grpc, web, bare = free_port(), free_port(), free_port()
    settings = [f"server.listen=127.0.0.1:{grpc}", f"http.listen=127.0.0.1:{web}", "backend.kind=cpu"]
    settings += [f"server.{port}=127.0.0.1:0" for port in ("admin_listen", "health_listen")]
    daemon = Peer([str(folder / "accelerd"), "serve", *(part for one in settings for part in ("--set", one))], web)
    handler = Peer([str(folder / "http_load"), "--bare", f"127.0.0.1:{bare}"], bare)
    try:
        small(arguments, grpc, web, bare)
        vectors(arguments.rounds, web)
        large(arguments.rounds, web)
    finally:
        daemon.process.terminate()
        handler.process.terminate()


def small(arguments: argparse.Namespace, grpc: int, web: int, bare: int) -> None:
    """Calls of one text, 1 and 32 at a time."""
    http_load = str(arguments.bin / "http_load")
    seconds = ["--seconds", str(arguments.seconds)]
    request = json.dumps({"texts": {"values": [TEXT]}})
    for concurrency in ("1", "32"):
        options = [*seconds, "--concurrency", concurrency]
        commands = {
            "gRPC": [str(arguments.bin / "load"), "embed", "--server", f"http://127.0.0.1:{grpc}", *options],
            "HTTP, OpenAI": [http_load, f"http://127.0.0.1:{web}/v1/embeddings", *options],
            "HTTP, JSON of the method": [http_load, f"http://127.0.0.1:{web}{EmbedService.EMBED.path}", "--body", request, *options],
            "bare axum": [http_load, f"http://127.0.0.1:{bare}/v1/embeddings", *options],
        }
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                figures[name].append(load(command))
        for name, found in figures.items():
            rates, tails = zip(*found, strict=True)
            print(f"{name}, {concurrency} at a time: {summary(list(rates), 0)} calls/s, p99 {summary(list(tails), 2)} ms")


def vectors(rounds: int, web: int) -> None:
    """The vectors of 10,000 texts in each form."""
    texts = [TEXT.format(n) for n in range(VECTORS)]
    for form in ("float", "base64"):
        body = json.dumps({"model": "builtin", "input": texts, "encoding_format": form}).encode()
        took, size = timed(lambda body=body: post(web, "/v1/embeddings", body), rounds)
        print(f"{VECTORS:,} vectors, OpenAI, {form}: {took} ms, {size / 1e6:.1f} MB")
    body = json.dumps({"texts": {"values": texts}}).encode()
    took, size = timed(lambda: post(web, EmbedService.EMBED.path, body), rounds)
    print(f"{VECTORS:,} vectors, JSON of the method: {took} ms, {size / 1e6:.1f} MB")
    encoded = b"".join(struct.pack("<I", len(text)) + text.encode() for text in texts)
    took, size = timed(lambda: infer(web, encoded), rounds)
    print(f"{VECTORS:,} vectors, Open Inference Protocol, binary: {took} ms, {size / 1e6:.1f} MB")


def infer(web: int, encoded: bytes) -> bytes:
    """A request with binary tensors."""
    inputs = [{"name": "text", "shape": [VECTORS], "datatype": "BYTES", "parameters": {"binary_data_size": len(encoded)}}]
    header = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", web)
    headers = {"inference-header-content-length": str(len(header)), "content-type": "application/octet-stream"}
    connection.request("POST", "/v2/models/builtin/infer", header + encoded, headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        sys.exit(f"infer: {answer.status} {content[:300]!r}")
    return content


def large(rounds: int, web: int) -> None:
    """A tensor of 64 MB in JSON, which is base64 there."""
    numbers = (LARGE_BODY // 4 * 3 - 1024) // 12 * 3
    tensor = {"dtype": "DTYPE_F32", "shape": [numbers], "data": base64.b64encode(bytes(4 * numbers)).decode()}
    nodes = [{"name": "y", "op": "abs", "inputs": ["x"]}]
    graph = {"inputs": [{"name": "x", "value": tensor}], "nodes": nodes, "outputs": [{"name": "y"}]}
    body = json.dumps(graph).encode()
    print(f"64 MB: body of {len(body) / 1e6:.1f} MB")
    took, size = timed(lambda: post(web, TensorService.EXECUTE.path, body), rounds)
    print(f"64 MB of JSON, answer of {size / 1e6:.1f} MB: {took} ms")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        main()
