"""Generates the tables of methods from the .proto files: `accelerd._methods`, and the names that the console calls."""

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
CONSOLE = PROTO.parent / "server" / "http" / "console" / "src" / "methods.ts"
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


def generate(output: Path, console: Path = CONSOLE) -> None:
    """Write the table to a folder, and the type of the console's names."""
    with tempfile.TemporaryDirectory() as scratch:
        image = Path(scratch, "image.binpb")
        protoc(f"--descriptor_set_out={image}")
        files = list(FileDescriptorSet.FromString(image.read_bytes()).file)
    (output / MODULE).write_text(table(files))
    generate_blocking.ruff("format", output / MODULE)
    console.write_text(type_of_names(files))


def drift() -> list[str]:
    """Return the names of the tables that are out of date."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        generate(scratch, scratch / CONSOLE.name)
        tables = {generate_blocking.SOURCES / MODULE: scratch / MODULE, CONSOLE: scratch / CONSOLE.name}
        return [there.name for there, fresh in tables.items() if not same(there, fresh)]


def same(there: Path, fresh: Path) -> bool:
    """Return whether a file exists with the content of another."""
    return there.is_file() and there.read_text() == fresh.read_text()


def table(files: list[FileDescriptorProto]) -> str:
    """Return the text of the table."""
    modules = {f".{file.package}.{one.name}": module_of(file) for file in files for one in file.message_type}
    services = sorted(((file, one) for file in files for one in file.service), key=lambda pair: pair[1].name)
    imports = ", ".join(sorted({module_of(file) for file, _ in services}))
    text = f"{OPENING}from ._proto import {imports}\n"
    return text + "".join("".join(service_class(file, service, modules)) for file, service in services)


def type_of_names(files: list[FileDescriptorProto]) -> str:
    """Return the text of the type in TypeScript of all names of methods."""
    services = sorted((service for file in files for service in file.service), key=lambda service: service.name)
    names = "".join(f'\n    | "{service.name}/{method.name}"' for service in services for method in service.method)
    opening = "/** Names of the methods of accelerd.v1, written by client/python/generate.py. */\n"
    return f"{opening}export type Method ={names};\n"


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
