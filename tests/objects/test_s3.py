"""Snapshots in S3: the daemon against moto's server, which checks signatures and permissions."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import boto3
import grpc
import pytest
from moto.server import ThreadedMotoServer

from accelerd._proto import similarity_pb2 as pb
from accelerd._proto import similarity_pb2_grpc, tensor_pb2

ROOT = Path(__file__).resolve().parents[2]
BUCKET, REGION = "snapshots", "eu-central-1"
POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


def program() -> Path:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return Path(os.environ.get("ACCELERD_BIN", target / "debug" / "accelerd"))


@pytest.fixture(scope="module", name="s3")
def running_s3() -> Iterator[dict[str, str]]:
    """Environment variables for the server and a user with access."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    anybody = {"endpoint_url": endpoint, "region_name": REGION, "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    place = {"CreateBucketConfiguration": {"LocationConstraint": REGION}}
    boto3.client("s3", **anybody).create_bucket(Bucket=BUCKET, **place)
    iam = boto3.client("iam", **anybody)
    iam.create_user(UserName="accelerd")
    iam.put_user_policy(UserName="accelerd", PolicyName="snapshots", PolicyDocument=json.dumps(POLICY))
    key = iam.create_access_key(UserName="accelerd")["AccessKey"]
    # The server checks signatures from here on.
    strict = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}, method="POST")
    urllib.request.urlopen(strict).close()
    yield {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }
    server.stop()


def command(listen: str, url: str, *settings: str) -> list[str]:
    given = ["server.admin_listen=127.0.0.1:0", "server.health_listen=127.0.0.1:0", "backend.kind=cpu"]
    given += ["drain.endpoint_delay=0s", f"store.snapshot_url={url}", *settings]
    return [str(program()), "serve", "--listen", listen, *(word for one in given for word in ("--set", one))]


@contextlib.contextmanager
def daemon(environment: dict[str, str], url: str, *settings: str) -> Iterator[similarity_pb2_grpc.SimilarityServiceStub]:
    with socket.create_server(("127.0.0.1", 0)) as held:
        address = f"127.0.0.1:{held.getsockname()[1]}"
    process = subprocess.Popen(command(address, url, *settings), env={**os.environ, **environment}, stderr=subprocess.PIPE)
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(timeout=60)
            yield similarity_pb2_grpc.SimilarityServiceStub(channel)
    finally:
        process.terminate()
        process.communicate()


def refused_start(environment: dict[str, str], url: str) -> str:
    """The output of a daemon that fails to start."""
    done = subprocess.run(command("127.0.0.1:0", url), env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    return done.stderr


def upsert(stub: similarity_pb2_grpc.SimilarityServiceStub, ids: range) -> None:
    data = b"".join(struct.pack("<2f", number, 1.0) for number in ids)
    vectors = tensor_pb2.Tensor(dtype=tensor_pb2.DTYPE_F32, shape=[len(ids), 2], data=data)
    stub.Upsert(pb.UpsertRequest(collection="c", ids=pb.PointIds(numbers=ids), vectors=vectors))


def test_snapshots_are_written_numbered_and_restored(s3: dict[str, str]) -> None:
    folder = f"s3://{BUCKET}/some/folder"
    with daemon(s3, folder) as stub:
        stub.CreateCollection(pb.CreateCollectionRequest(name="c", dimensions=2, metric=pb.METRIC_DOT))
        upsert(stub, range(10))
        first = stub.CreateSnapshot(pb.CreateSnapshotRequest(collection="c")).snapshot
        upsert(stub, range(10, 15))
        second = stub.CreateSnapshot(pb.CreateSnapshotRequest(collection="c", url=f"{folder}/c")).snapshot
        assert [first.version, second.version] == [1, 2]
        assert [first.point_count, second.point_count] == [10, 15]
        assert first.url == f"{folder}/c/v0000000001"
    # A second daemon restores the first version by name and the newest by folder.
    with daemon(s3, folder) as stub:
        for url, name, count in [(first.url, "old", 10), (f"{folder}/c", "new", 15)]:
            restored = stub.RestoreCollection(pb.RestoreCollectionRequest(url=url, name=name)).collection
            assert (restored.name, restored.point_count) == (name, count)
        ids = pb.PointIds(numbers=[14])
        got = stub.GetPoints(pb.GetPointsRequest(collection="new", ids=ids, include_vectors=True))
        assert struct.unpack("<2f", got.vectors.data) == (14.0, 1.0)


def test_a_snapshot_that_is_not_there_is_not_found(s3: dict[str, str]) -> None:
    with daemon(s3, f"s3://{BUCKET}/empty") as stub:
        with pytest.raises(grpc.RpcError) as missing:
            stub.RestoreCollection(pb.RestoreCollectionRequest(url=f"s3://{BUCKET}/empty/c", name="c"))
        assert missing.value.code() == grpc.StatusCode.NOT_FOUND
        with pytest.raises(grpc.RpcError) as elsewhere:
            stub.RestoreCollection(pb.RestoreCollectionRequest(url="s3://other/c", name="c"))
        assert elsewhere.value.code() == grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    ("wrong", "url", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, f"s3://{BUCKET}/a", "403 Forbidden"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, f"s3://{BUCKET}/a", "403 Forbidden"),
        ({}, "s3://no-such-bucket/a", "NoSuchBucket"),
    ],
    ids=["secret", "key", "bucket"],
)
def test_what_cannot_work_stops_the_start_by_the_setting_s_name(s3: dict[str, str], wrong: dict[str, str], url: str, said: str) -> None:
    words = refused_start({**s3, **wrong}, url)
    assert "accelerd: cannot use store.snapshot_url" in words and said in words


def test_a_server_that_is_not_there_stops_the_start(s3: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    words = refused_start({**s3, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}, f"s3://{BUCKET}/a")
    assert "accelerd: cannot use store.snapshot_url" in words


def test_without_the_check_the_refusal_comes_with_the_snapshot(s3: dict[str, str]) -> None:
    environment = {**s3, "AWS_SECRET_ACCESS_KEY": "wrong"}
    with daemon(environment, f"s3://{BUCKET}/a", "store.snapshot_check=false") as stub:
        stub.CreateCollection(pb.CreateCollectionRequest(name="c", dimensions=2, metric=pb.METRIC_DOT))
        upsert(stub, range(3))
        with pytest.raises(grpc.RpcError) as refused:
            stub.CreateSnapshot(pb.CreateSnapshotRequest(collection="c"))
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "credentials" in refused.value.details() and s3["AWS_ENDPOINT_URL"] not in refused.value.details()
        assert stub.GetCollection(pb.GetCollectionRequest(name="c")).collection.point_count == 3
