"""The protocol keeps its style and breaks no caller of the last release."""

import subprocess
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2

PROTO = Path(__file__).parents[2] / "proto"
BUF = Path(sys.executable).parent / "buf"


def buf(*arguments):
    return subprocess.run([BUF, *arguments], cwd=PROTO, capture_output=True, text=True)


def test_the_protocol_passes_buf_lint():
    done = buf("lint")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_protocol_is_formatted():
    done = buf("format", "--diff", "--exit-code")
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_breaks_since_the_last_release():
    done = buf("breaking", "--against", "accelerd.binpb")
    assert done.returncode == 0, done.stdout + done.stderr


def test_idempotency_levels_are_compared_once_a_release_has_them():
    release = descriptor_pb2.FileDescriptorSet.FromString((PROTO / "accelerd.binpb").read_bytes())
    methods = [method for file in release.file for service in file.service for method in service.method]
    has_levels = any(method.options.HasField("idempotency_level") for method in methods)
    is_excepted = "RPC_SAME_IDEMPOTENCY_LEVEL" in (PROTO / "buf.yaml").read_text()
    assert methods and is_excepted != has_levels


def test_a_breaking_change_would_be_noticed(tmp_path):
    for file in PROTO.glob("accelerd/v1/*.proto"):
        copy = tmp_path / file.relative_to(PROTO)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(file.read_text().replace("uint32 k = 4;", "uint64 k = 4;"))
    (tmp_path / "buf.yaml").write_text((PROTO / "buf.yaml").read_text())
    done = buf("breaking", str(tmp_path), "--against", "accelerd.binpb")
    assert done.returncode != 0 and "FindSimilarRequest" in done.stdout, done.stdout + done.stderr
