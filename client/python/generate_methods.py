"""Generates the table of methods, `accelerd._methods`, from the .proto files and their options."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
    MethodOptions,
    ServiceDescriptorProto,
)

import generate_blocking

PROTO = Path(__file__).resolve().parents[2] / "proto"
MODULE = "_methods.py"
OPENING = '''"""The methods of accelerd.v1, written by generate.py from the .proto files."""

from __future__ import annotations

from ._call import Method
'''


def protoc(*outputs: str) -> None:
    """Compile the .proto files."""
    from grpc_tools import protoc

    files = sorted(str(file.relative_to(PROTO)) for file in PROTO.glob("accelerd/v1/*.proto"))
    well_known = str(resources.files("grpc_tools") / "_proto")
    if protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", *outputs, *files]) != 0:
        sys.exit("protoc failed")


def generate(output: Path) -> None:
    """Write the table to a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        image = Path(scratch, "image.binpb")
        protoc(f"--descriptor_set_out={image}")
        files = FileDescriptorSet.FromString(image.read_bytes()).file
    (output / MODULE).write_text(table(list(files)))
    generate_blocking.ruff("format", output / MODULE)


def drift() -> list[str]:
    """Return the name of the table if it is out of date."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = Path(scratch, MODULE).read_text()
    there = generate_blocking.SOURCES / MODULE
    return [] if there.is_file() and there.read_text() == fresh else [MODULE]


def table(files: list[FileDescriptorProto]) -> str:
    """Return the text of the table."""
    modules = {f".{file.package}.{one.name}": module_of(file) for file in files for one in file.message_type}
    services = sorted(((file, one) for file in files for one in file.service), key=lambda pair: pair[1].name)
    imports = ", ".join(sorted({module_of(file) for file, _ in services}))
    text = f"{OPENING}from ._proto import {imports}\n"
    return text + "".join("".join(service_class(file, service, modules)) for file, service in services)


def module_of(file: FileDescriptorProto) -> str:
    """Return the module of a file's messages."""
    return f"{Path(file.name).stem}_pb2"


def service_class(file: FileDescriptorProto, service: ServiceDescriptorProto, modules: dict[str, str]) -> Iterator[str]:
    """Iterate over the parts of the text of a service."""
    name = f"{file.package}.{service.name}"
    yield f'\n\nclass {service.name}:\n    """Methods of {name}."""\n\n'
    for method in service.method:
        constant = re.sub(r"(?<!^)([A-Z])", r"_\1", method.name).upper()
        response = f"{modules[method.output_type]}.{method.output_type.rpartition('.')[2]}"
        path, is_idempotent = f"/{name}/{method.name}", idempotent(name, method)
        yield f'    {constant} = Method("{path}", {response}, is_idempotent={is_idempotent})\n'


def idempotent(service: str, method: MethodDescriptorProto) -> bool:
    """Return whether a call may be repeated although the daemon may have executed it."""
    if not method.options.HasField("idempotency_level"):
        sys.exit(f"{service}.{method.name}: expected the option idempotency_level, got none")
    return method.options.idempotency_level != MethodOptions.IDEMPOTENCY_UNKNOWN
