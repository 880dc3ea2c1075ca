"""Stubs and methods are what the .proto files say, and the blocking client is what the asyncio client says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, MethodOptions

import generate_blocking
import generate_methods


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of both clients."""
    pytest.importorskip("ruff")
    for pattern in ("_aio_*.py", "_blocking_*.py"):
        for file in generate_blocking.SOURCES.glob(pattern):
            shutil.copy(file, tmp_path)
    return tmp_path


def test_all_generated_code_is_up_to_date() -> None:
    pytest.importorskip("grpc_tools")
    pytest.importorskip("ruff")
    script = Path(__file__).resolve().parents[1] / "generate.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_blocking_client_is_up_to_date() -> None:
    pytest.importorskip("ruff")
    assert generate_blocking.drift() == []


def test_a_generated_module_that_is_edited_added_or_deleted_is_found(sources: Path) -> None:
    edited = sources / "_blocking_call.py"
    edited.write_text(edited.read_text().replace("in_time(left(deadline))", "left(deadline)"))
    (sources / "_blocking_added.py").write_text("")
    (sources / "_blocking_verify.py").unlink()
    assert generate_blocking.drift(sources) == ["_blocking_added.py", "_blocking_call.py", "_blocking_verify.py"]


def test_a_change_of_the_asyncio_client_has_to_be_generated(sources: Path) -> None:
    changed = sources / "_aio_parse.py"
    changed.write_text(changed.read_text().replace('mode: Mode = "exec"', 'mode: Mode = "eval"'))
    assert generate_blocking.drift(sources) == ["_blocking_parse.py"]
    generate_blocking.generate(sources, sources)
    assert generate_blocking.drift(sources) == []
    assert 'mode: Mode = "eval"' in (sources / "_blocking_parse.py").read_text()


def test_a_rule_that_matches_nothing_is_refused(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(generate_blocking.RULES, "AsyncNothing", "Nothing")
    with pytest.raises(SystemExit, match="AsyncNothing"):
        generate_blocking.drift(sources)


@pytest.fixture
def echo() -> FileDescriptorProto:
    """A file with a service of one method."""
    file = FileDescriptorProto(name="accelerd/v1/echo.proto", package="accelerd.v1")
    file.message_type.add(name="SayTwiceResponse")
    method = file.service.add(name="EchoService").method.add(name="SayTwice")
    method.output_type = ".accelerd.v1.SayTwiceResponse"
    return file


def test_the_table_has_a_method_by_its_level(echo: FileDescriptorProto) -> None:
    for level, is_idempotent in (
        (MethodOptions.IDEMPOTENCY_UNKNOWN, False),
        (MethodOptions.IDEMPOTENT, True),
        (MethodOptions.NO_SIDE_EFFECTS, True),
    ):
        echo.service[0].method[0].options.idempotency_level = level
        arguments = f'"/accelerd.v1.EchoService/SayTwice", echo_pb2.SayTwiceResponse, is_idempotent={is_idempotent}'
        assert "class EchoService:" in generate_methods.table([echo])
        assert f"    SAY_TWICE = Method({arguments})\n" in generate_methods.table([echo])


def test_a_method_without_a_level_is_refused(echo: FileDescriptorProto) -> None:
    with pytest.raises(SystemExit, match=r"EchoService\.SayTwice: expected the option idempotency_level, got none"):
        generate_methods.table([echo])
