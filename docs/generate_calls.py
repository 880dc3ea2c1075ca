"""Writes docs/calls.md, the list of all calls, from the comments of the .proto files; with --check it only compares."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "proto/accelerd/v1"
PAGE = ROOT / "docs/calls.md"
OPENING = """# Calls

Every method of the protocol, package `accelerd.v1`, written by `docs/generate_calls.py` from the comments of the
[.proto files](../proto/accelerd/v1), which document all fields. [Errors](errors.md) explains the reasons of errors; the
[Python client](../client/python/README.md) has a method for most calls.
"""
#: Services in the order of the README.
SERVICES = ("embed", "similarity", "parse", "tensor", "kernel", "verify", "device")
#: Methods of the Python client: those of `Client`, of a collection, or of a tensor.
PYTHON = {
    "Embed": "Client.embed, Client.embed_tokens",
    "EmbedStream": "Client.embed_stream",
    "Rerank": "Client.rerank",
    "Tokenize": "Client.tokenize, Client.token_spans",
    "ListModels": "Client.models",
    "LoadModel": "Client.load_model",
    "UnloadModel": "Client.unload_model",
    "FindSimilar": "Client.find_similar",
    "CreateCollection": "Client.create_collection",
    "GetCollection": "Collection.describe",
    "ListCollections": "Client.collections",
    "DeleteCollection": "Collection.delete",
    "Upsert": "Collection.upsert",
    "UpsertStream": "Collection.upsert_many",
    "GetPoints": "Collection.get",
    "ScrollPoints": "Collection.scroll, Collection.scroll_columns",
    "CountPoints": "Collection.count",
    "DeletePoints": "Collection.delete_points",
    "Search": "Collection.search, Collection.search_columns",
    "Cluster": "Client.cluster",
    "CreateSnapshot": "Collection.snapshot",
    "RestoreCollection": "Client.restore_collection",
    "Parse": "Client.parse",
    "ParseStream": "Client.parse_stream",
    "Execute": "Client.execute, Client.keep, Tensor.numpy",
    "UploadTensor": "Client.upload",
    "DownloadTensor": "Tensor.numpy",
    "CopyTensor": "Client.copy",
    "FreeTensors": "Client.free",
    "ListTensors": "Client.list_tensors",
    "Translate": "Client.translate",
    "Compile": "Client.compile",
    "Launch": "Client.launch",
    "Benchmark": "Client.benchmark",
    "Evaluate": "Client.evaluate_cuda",
    "GenerateDataset": "Client.generate_dataset",
    "ListKernels": "Client.list_kernels",
    "EvictKernel": "Client.evict_kernel",
    "CompareOutputs": "Client.compare",
    "Verify": "Client.verify",
    "ListDevices": "Client.devices",
    "GetStats": "Client.stats",
}


class Call(NamedTuple):
    """A method of a service."""

    service: str
    name: str
    request: str
    response: str
    comment: list[str]
    file: str

    @property
    def anchor(self) -> str:
        """Anchor of its heading in the page."""
        return self.name.lower()


def calls() -> list[Call]:
    """Return all methods, in the order of the page."""
    found = []
    for name in SERVICES:
        text = (PROTOS / f"{name}.proto").read_text()
        (service,) = re.findall(r"^service (\w+) \{", text, re.MULTILINE)
        pattern = r"((?:^  //.*\n)*)^  rpc (\w+)\((.*?)\) returns \((.*?)\)"
        for comment, method, request, response in re.findall(pattern, text, re.MULTILINE):
            lines = [line.strip().removeprefix("//").removeprefix(" ") for line in comment.splitlines()]
            found.append(Call(service, method, request, response, lines, f"{name}.proto"))
    return found


def page() -> str:
    """Return the page."""
    parts, service = [OPENING], ""
    for call in calls():
        if call.service != service:
            service = call.service
            parts.append(f"\n## {service}\n")
        parts.append(f"\n### {call.name}\n\n")
        python = f" In Python: {', '.join(f'`{one}`' for one in PYTHON[call.name].split(', '))}." if call.name in PYTHON else ""
        signature = f"`{call.request}` → `{call.response}`"
        parts.append(f"{signature}, [{call.file}](../proto/accelerd/v1/{call.file}).{python}\n\n")
        parts.append("\n".join(call.comment) + "\n")
    return "".join(parts).replace("Fails with:\n- ", "Fails with:\n\n- ")


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
    elif not PAGE.exists() or PAGE.read_text() != page():
        sys.exit("docs/calls.md is not up to date: run python3 docs/generate_calls.py")
