"""Writes docs/calls.md, the list of all calls, and docs/messages.md, that of their messages, from the .proto files; with --check it only
compares."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "proto/accelerd/v1"
PAGE = ROOT / "docs/calls.md"
MESSAGES = ROOT / "docs/messages.md"
OPENING = """# Calls

Every method of the protocol, package `accelerd.v1`, written by `docs/generate_calls.py` from the comments of the
[.proto files](../proto/accelerd/v1). [Messages](messages.md) lists the fields. [Errors](errors.md) explains the reasons of errors; the
[Python client](../client/python/README.md) has a method for most calls.
"""
MESSAGES_OPENING = """# Messages

The messages and enums of the protocol, package `accelerd.v1`, written by `docs/generate_calls.py` from the [.proto files](../proto/accelerd/v1).
[Calls](calls.md) lists the methods.
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
        signature = f"{linked(call.request)} → {linked(call.response)}"
        parts.append(f"{signature}, [{call.file}](../proto/accelerd/v1/{call.file}).{python}\n\n")
        parts.append("\n".join(call.comment) + "\n")
    return "".join(parts).replace("Fails with:\n- ", "Fails with:\n\n- ")


def linked(operand: str) -> str:
    """Return the message of a call, with a link to its fields."""
    stream, _, name = operand.rpartition(" ")
    link = f"[`{name}`](messages.md#{name.lower()})"
    return f"{stream} {link}" if stream else link


class Field(NamedTuple):
    """A field of a message, or a value of an enum."""

    name: str
    type: str
    comment: str


class Type(NamedTuple):
    """A message or an enum; the name of a nested one has that of its message."""

    name: str
    comment: list[str]
    fields: list[Field]


def types(name: str) -> list[Type]:
    """Return the messages and enums of a .proto file, in order."""
    found: list[Type] = []
    #: The message of each open brace; None in blocks that have no fields.
    open_types: list[Type | None] = []
    comment: list[str] = []
    choice = ""
    for line in (PROTOS / f"{name}.proto").read_text().splitlines():
        text = line.strip()
        if text.startswith("//"):
            comment.append(text.removeprefix("//").removeprefix(" "))
            continue
        current = open_types[-1] if open_types else None
        if block := re.match(r"(message|enum) (\w+) \{", text):
            outer = f"{current.name}." if current else ""
            found.append(Type(outer + block[2], comment, []))
            open_types.append(found[-1])
        elif oneof := re.match(r"oneof (\w+) \{", text):
            choice = oneof[1]
            open_types.append(current)
        elif text.endswith("{"):
            open_types.append(None)
        elif current and (field := re.match(r"(?:(.*) )?(\w+) = \d+(?: \[.*\])?;", text)):
            kind = field[1] or ""
            current.fields.append(Field(field[2], f"{kind}, one of `{choice}`" if choice else kind, " ".join(comment)))
        if text.endswith("}"):
            open_types.pop()
            choice = ""
        comment = []
    return found


def messages_page() -> str:
    """Return the page of messages."""
    parts = [MESSAGES_OPENING]
    for name in sorted(file.stem for file in PROTOS.glob("*.proto")):
        listed = types(name)
        if not listed:
            continue
        parts.append(f"\n## [{name}.proto](../proto/accelerd/v1/{name}.proto)\n")
        for one in listed:
            parts.append(f"\n### {one.name}\n\n" + "\n".join(one.comment) + "\n")
            if one.fields:
                is_enum = not any(field.type for field in one.fields)
                parts.append("\n| value | meaning |\n|---|---|\n" if is_enum else "\n| field | type | meaning |\n|---|---|---|\n")
                parts += [row(field, is_enum) for field in one.fields]
    return "".join(parts)


def row(field: Field, is_enum: bool) -> str:
    """Return the row of a field."""
    comment = field.comment.replace("|", "\\|")
    return f"| `{field.name}` | {comment} |\n" if is_enum else f"| `{field.name}` | {field.type} | {comment} |\n"


PAGES = {PAGE: page, MESSAGES: messages_page}

if __name__ == "__main__":
    for path, write in PAGES.items():
        if "--check" not in sys.argv[1:]:
            path.write_text(write())
        elif not path.exists() or path.read_text() != write():
            sys.exit(f"{path.relative_to(ROOT)} is not up to date: run python3 docs/generate_calls.py")
