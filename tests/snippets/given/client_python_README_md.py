import ast
import asyncio
import os
import sys
from pathlib import Path

import accelerd
import grpc
import numpy as np
import warp_stub
from accelerd import NODE_KINDS, DataParallel, Wasm
from accelerd.testing import floats

sys.path.append(f"{root}/client/python/tests")
import certificates
import wasm_module as w

warp_stub.install()
import warp as wp

texts, sources = ["parse a date", "open a socket"], ["x = 1", "y"]
batches, batches_of_files = [texts, texts], [sources, sources]
token = "token"
rows, weights = np.random.rand(5, 4).astype(np.float32), np.random.rand(4, 3).astype(np.float32)
a, b = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)
authority = certificates.Authority()
caller = authority.issue("caller", is_client=True)
Path("ca.pem").write_bytes(authority.certificate)
Path("client.pem").write_bytes(caller.certificate)
Path("client.key").write_bytes(caller.key)
default = "client = accelerd.Client()"
before["(parsed,)"] = default
before["client.parse_stream(batches_of_files)"] = default
before["x = client.tensor(rows)"] = default
before["kernel = client.compile(relu)"] = "x = np.linspace(-1.0, 1.0, 5)"
before["columns = {"] = "paths, lines, vectors = ['a.py', 'b.py'], [1, 2], client.embed(texts)"
before["grpc.ssl_channel_credentials"] = "token = 'token'"
before["saxpy(x: wp.array"] = "x, y = np.ones(4, np.float32), np.ones(4, np.float32)"
slow_relu = "def slow_relu(x: float) -> float:\n    return 0.5 * x if x > 0.0 else 0.0\n"


def norm(x: float, n: int) -> float:
    return x * float(n)


convert, multiply = b"\xb7", b"\xa2"
module = w.module("norm", ["f64", "i32"], ["f64"], w.get(0) + w.get(1) + convert + multiply)
os.makedirs("build")
for path in ("norm.wasm", "build/norm.wasm"):
    Path(path).write_bytes(module)
xs, ns = np.array([1.0, 2.0]), np.array([3, 4], np.int32)
outputs = xs * ns
replaced["1_000_000"] = "1_000"
replaced["generate_dataset(1000"] = "generate_dataset(2"
replaced['reference=slow_relu, device="cuda"'] = "reference=slow_relu"
