"""tritonclient, unmodified, over HTTP and gRPC, blocking and asyncio: models, vectors, scores, graphs and errors."""

from __future__ import annotations

import asyncio
import json
import queue
import re
import urllib.error
import urllib.request
import zlib

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
from accelerd import save_graph
from conftest import ENCODER, READER, RERANKER, ROOT, Triton, limited
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tritonclient.utils import InferenceServerException

TEXTS = ["a b c", "def the", "x " * 500, 'é "quoted" \\ \n\t 漢字 🎉 \u2028 \x7f', " ", "a b c"]
DOCUMENTS = ["a b c", "date of the e", "x y z", "def the", "date"]
VECTORS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def texts(values):
    return np.array([value.encode() for value in values], dtype=np.object_)


def text_input(triton, values, **options):
    return triton.input("text", texts(values), "BYTES", **options)


def embed(triton, values, **options):
    return triton.infer(ENCODER, [text_input(triton, values)], **options).as_numpy("embedding")


def refused(call, *arguments, **named):
    with pytest.raises(InferenceServerException) as caught:
        call(*arguments, **named)
    return caught.value


def test_the_example_of_the_document_runs(daemon):
    (text,) = re.findall(r"```python\n(import numpy.*?)^```", (ROOT / "docs/oip.md").read_text(), re.MULTILINE | re.DOTALL)
    names = {}
    exec(text.replace("localhost:7436", daemon.http), names)
    assert names["vectors"].shape == (2, 64)


def test_the_server_and_its_models_are_described(triton, client):
    assert triton.is_server_live() and triton.is_server_ready()
    server = triton.plain(triton.get_server_metadata())
    assert server["name"] == "accelerd" and "binary_tensor_data" in server["extensions"]
    for name in ("builtin", ENCODER, RERANKER):
        assert triton.is_model_ready(name) and triton.is_model_ready(name, "1")
    assert not triton.is_model_ready("no/such") and not triton.is_model_ready(ENCODER, "2")
    dimensions = client.embed(["a"], model=ENCODER).shape[1]
    encoder = triton.plain(triton.get_model_metadata(ENCODER))
    assert encoder == {
        "name": ENCODER,
        "versions": ["1"],
        "platform": "accelerd_encoder",
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [{"name": "embedding", "datatype": "FP32", "shape": [-1, dimensions]}],
    }
    reranker = triton.plain(triton.get_model_metadata(RERANKER, "1"))
    assert [one["name"] for one in reranker["inputs"]] == ["query", "documents"]
    listed = triton.plain(triton.get_model_repository_index())
    assert {"name": RERANKER, "version": "1", "state": "READY"} in listed


def test_vectors_have_the_bits_of_accelerds_own_protocol(triton, client):
    expected = client.embed(TEXTS, model=ENCODER)
    assert embed(triton, TEXTS).tobytes() == expected.tobytes()
    column = triton.input("text", texts(TEXTS).reshape(-1, 1), "BYTES")
    assert triton.infer(ENCODER, [column]).as_numpy("embedding").tobytes() == expected.tobytes()
    result = triton.infer(ENCODER, [text_input(triton, TEXTS)], request_id="r7", model_version="1")
    response = triton.plain(result.get_response())
    assert (response.get("id"), response.get("model_name", response.get("modelName"))) == ("r7", ENCODER)


def test_parameters_are_those_of_embed(triton, client):
    options = {"dimensions": 8, "normalize": True}
    expected = client.embed(TEXTS, model=ENCODER, **options)
    assert embed(triton, TEXTS, parameters=options).tobytes() == expected.tobytes()
    assert embed(triton, TEXTS, parameters={"normalize": False, "unknown": "x"}).shape == client.embed(TEXTS, model=ENCODER).shape
    assert "dimensions" in str(refused(embed, triton, ["a"], parameters={"dimensions": "many"}))
    assert "prompt" in str(refused(embed, triton, ["a"], parameters={"prompt_name": "none"}))
    refused(embed, triton, ["x " * 5000], parameters={"truncate": False})


@pytest.mark.parametrize("raw", [False, True])
def test_scores_are_in_the_order_of_the_documents(triton, client, raw):
    expected = np.empty(len(DOCUMENTS), np.float32)
    for one in client.rerank("date of a", DOCUMENTS, model=RERANKER, raw_scores=raw):
        expected[one.index] = one.score
    query = triton.input("query", texts(["date of a"]), "BYTES")
    documents = triton.input("documents", texts(DOCUMENTS), "BYTES")
    scores = triton.infer(RERANKER, [documents, query], parameters={"raw_scores": raw}).as_numpy("scores")
    assert scores.tobytes() == expected.tobytes() and list(scores) != sorted(scores, reverse=True)


@pytest.mark.parametrize("binary_input", [True, False])
@pytest.mark.parametrize("binary_output", [True, False])
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
@pytest.mark.parametrize("kind", ["http", "http-aio"])
def test_http_has_binary_data_json_and_compression(daemon, client, kind, binary_input, binary_output, compression):
    triton = Triton(kind, daemon)
    output = triton.types.InferRequestedOutput("embedding", binary_data=binary_output)
    vectors = triton.infer(
        ENCODER,
        [text_input(triton, TEXTS, binary_data=binary_input)],
        outputs=[output],
        request_compression_algorithm=compression,
        response_compression_algorithm=compression,
    ).as_numpy("embedding")
    assert vectors.astype(np.float32).tobytes() == client.embed(TEXTS, model=ENCODER).tobytes()


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_grpc_has_compression(daemon, client, compression):
    triton = Triton("grpc", daemon)
    vectors = embed(triton, TEXTS, compression_algorithm=compression)
    assert vectors.tobytes() == client.embed(TEXTS, model=ENCODER).tobytes()


def test_a_stream_answers_each_request_and_goes_on_after_a_failure(daemon, client):
    triton, answers = Triton("grpc", daemon), queue.Queue()
    with tritonclient.grpc.InferenceServerClient(daemon.grpc) as stream:
        stream.start_stream(lambda result, error: answers.put((result, error)))
        for name, values in [(ENCODER, ["a"]), ("none", ["a"]), (ENCODER, ["b c"])]:
            stream.async_stream_infer(name, [text_input(triton, values)], request_id=f"{name}/{values[0]}")
        received = [answers.get(timeout=30) for _ in range(3)]
        stream.stop_stream()
    assert [error is None for _, error in received] == [True, False, True]
    assert "none" in str(received[1][1])
    last = received[2][0]
    assert last.get_response().id == f"{ENCODER}/b c"
    assert last.as_numpy("embedding").tobytes() == client.embed(["b c"], model=ENCODER).tobytes()

    async def aio():
        async with tritonclient.grpc.aio.InferenceServerClient(daemon.grpc) as stream:

            async def requests():
                yield {"model_name": ENCODER, "inputs": [text_input(triton, ["b c"])]}

            return [answer async for answer in stream.stream_infer(requests())]

    ((result, error),) = asyncio.run(aio())
    assert error is None and result.as_numpy("embedding").tobytes() == last.as_numpy("embedding").tobytes()


def linear(client, weights, path):
    x = client.tensor(np.zeros((1, 3), np.float32))
    y = x @ client.tensor(weights)
    save_graph(path, inputs={"x": x}, outputs={"y": y, "largest": client.xp.max(y, axis=1)}, any_extent={"x": [0]})


def test_a_graph_is_served_changed_and_served_again(triton, daemon, client):
    name = f"linear-{triton.transport}-{triton.is_aio}"
    path, x = daemon.graphs / f"{name}.graph", triton.input("x", VECTORS, "FP32")
    assert not triton.is_model_ready(name)
    for version, weights in enumerate([np.eye(3, 2), np.full((3, 5), 0.3)], 1):
        weights = weights.astype(np.float32)
        linear(client, weights, path)
        described = triton.plain(triton.get_model_metadata(name, str(version)))
        assert (described["platform"], described["versions"]) == ("accelerd_graph", [str(version)])
        assert described["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]
        assert {"name": "y", "datatype": "FP32", "shape": [-1, weights.shape[1]]} in described["outputs"]
        expected = (client.tensor(VECTORS) @ client.tensor(weights)).numpy()
        result = triton.infer(name, [x])
        assert result.as_numpy("y").tobytes() == expected.tobytes()
        assert result.as_numpy("largest").tolist() == expected.max(1).tolist()
        only = triton.infer(name, [x], outputs=[triton.types.InferRequestedOutput("largest")], model_version=str(version))
        assert only.as_numpy("y") is None and only.as_numpy("largest").tolist() == expected.max(1).tolist()
    assert "version" in str(refused(triton.infer, name, [x], model_version="1"))
    listed = triton.plain(triton.get_model_repository_index())
    assert {"name": name, "version": "2", "state": "READY"} in listed
    refusals = {
        "x: expected the datatype FP32, got FP64": ("FP64", VECTORS.astype(np.float64)),
        "x: expected the shape [-1, 3], got [3, 4]": ("FP32", np.ascontiguousarray(VECTORS.T)),
    }
    for said, (datatype, array) in refusals.items():
        assert said in str(refused(triton.infer, name, [triton.input("x", array, datatype)]))
    assert "z: unknown input; the model has x" in str(refused(triton.infer, name, [triton.input("z", VECTORS, "FP32")]))
    empty = triton.infer(name, [triton.input("x", VECTORS[:0], "FP32")])
    assert empty.as_numpy("y").shape == (0, 5)
    path.write_bytes(b"not a graph")
    assert "cannot be read" in str(refused(triton.infer, name, [x]))
    path.unlink()
    assert not triton.is_model_ready(name)


@pytest.mark.parametrize(
    ("numpy", "datatype"),
    [
        (np.bool_, "BOOL"),
        (np.uint8, "UINT8"),
        (np.int16, "INT16"),
        (np.uint32, "UINT32"),
        (np.int64, "INT64"),
        (np.float16, "FP16"),
        (np.float64, "FP64"),
    ],
)
def test_graphs_have_all_types(triton, daemon, client, numpy, datatype):
    name, values = f"{datatype}-{triton.transport}-{triton.is_aio}", np.array([[0, 1], [1, 0]], dtype=numpy)
    x = client.tensor(values)
    save_graph(daemon.graphs / f"{name}.graph", inputs={"x": x}, outputs={"y": x.T, "bf16": x.to("bf16")})
    result = triton.infer(name, [triton.input("x", values, datatype)])
    assert result.as_numpy("bf16").tolist() == values.astype(np.float32).tolist()
    assert result.as_numpy("y").dtype == values.dtype and result.as_numpy("y").tolist() == values.T.tolist()


def test_bad_requests_have_clear_errors(triton):
    def failure(name, *inputs, **options):
        return refused(triton.infer, name, list(inputs), **options)

    text = text_input(triton, ["a"])
    codes = ("404", "StatusCode.NOT_FOUND")
    unknown = failure("no/such", text)
    assert unknown.status() in codes and "no/such" in str(unknown)
    assert failure("no/such", triton.input("x", VECTORS, "FP32")).status() in codes
    assert "version" in str(failure(ENCODER, text, model_version="7"))
    assert "expected text" in str(failure(ENCODER, triton.input("txt", texts(["a"]), "BYTES")))
    assert "txt: unknown input; the model has text" in str(failure(ENCODER, text, triton.input("txt", texts(["a"]), "BYTES")))
    assert "documents: expected an input of this name" in str(failure(RERANKER, triton.input("query", texts(["a"]), "BYTES")))
    assert "text: expected the datatype BYTES, got FP32" in str(failure(ENCODER, triton.input("text", VECTORS, "FP32")))
    wrong = triton.types.InferRequestedOutput("vectors")
    assert "vectors: unknown output; the model has embedding" in str(failure(ENCODER, text, outputs=[wrong]))
    assert "expected at least one element" in str(failure(ENCODER, text_input(triton, [])))
    not_utf8 = np.array([b"a", b"\xff"], dtype=np.object_)
    assert "text: element 1: invalid utf-8" in str(failure(ENCODER, triton.input("text", not_utf8, "BYTES")))
    shape = triton.input("text", texts(["a", "b"]), "BYTES")
    shape.set_shape([3])
    assert "expected 3 elements" in str(failure(ENCODER, shape))


def post(daemon, path, body, headers):
    request = urllib.request.Request(f"http://{daemon.http}{path}", body, headers)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    return caught.value.code, json.loads(caught.value.read())["error"]


def test_malformed_bodies_have_clear_errors(daemon):
    path = f"/v2/models/{ENCODER}/infer"
    header = json.dumps({"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 5}}]}).encode()
    body, length, binary = header + b"\1\0\0\0a", "Inference-Header-Content-Length", {"Content-Type": "application/octet-stream"}
    for value in ["-1", str(len(body) + 1), "18446744073709551617", "x"]:
        code, error = post(daemon, path, body, {length: value, **binary})
        assert code == 400 and f"expected a number of at most {len(body)}" in error
    for value in [0, len(header) - 1, len(header) + 1]:
        assert post(daemon, path, body, {length: str(value), **binary})[0] == 400
    code, error = post(daemon, path, zlib.compress(body), {length: str(len(header)), "Content-Encoding": "gzip", **binary})
    assert code == 400 and "decompressed" in error
    assert post(daemon, path, body, {"Content-Type": "text/plain"})[0] == 415
    assert post(daemon, f"/v2/models/{ENCODER}/train", body, binary)[0] == 404


def test_callers_without_rights_learn_nothing(locked_triton, locked, daemon, client):
    triton, token = locked_triton, {"authorization": f"Bearer {READER}"}
    linear(client, np.eye(3, dtype=np.float32), locked.graphs / "linear.graph")
    assert triton.is_server_live() and triton.is_server_ready()
    text, x = text_input(triton, ["a"]), triton.input("x", VECTORS, "FP32")
    for call in (
        lambda headers: triton.get_server_metadata(headers=headers),
        lambda headers: triton.get_model_metadata("linear", headers=headers),
        lambda headers: triton.get_model_repository_index(headers=headers),
        lambda headers: triton.infer(ENCODER, [text], headers=headers),
        lambda headers: triton.infer("linear", [x], headers=headers),
    ):
        assert call(token) is not None
        for headers in ({}, {"authorization": "Bearer wrong"}):
            refusal = str(refused(call, headers))
            assert "credentials" in refusal or "token" in refusal, refusal
    malformed = str(refused(triton.infer, "linear", [text], headers={}))
    assert "unknown input" not in malformed


def test_a_call_counts_once_against_quotas(locked_triton):
    triton, token = locked_triton, limited(locked_triton.kind)
    headers = {"authorization": f"Bearer {token}"}
    text = text_input(triton, ["x " * 20_000])
    assert triton.infer(ENCODER, [text], headers=headers).as_numpy("embedding").shape[0] == 1
    refusal = str(refused(triton.infer, ENCODER, [text], headers=headers))
    assert "more than 0.001 requests per second" in refusal
    headers = {"authorization": f"Bearer {token}-other"}
    refusal = str(refused(triton.infer, "builtin", [text_input(triton, ["a"])], headers=headers))
    assert 'may not use the model "builtin"' in refusal


def test_calls_are_counted_by_method(daemon):
    embed(Triton("grpc", daemon), ["a"])
    metrics = urllib.request.urlopen(f"http://{daemon.admin}/metrics").read().decode()
    assert 'method="inference.GRPCInferenceService/ModelInfer"' in metrics


def test_the_messages_have_the_names_and_numbers_of_tritons(daemon):
    """Reflection returns our descriptors; each of their fields has the same number and type in tritonclient's."""
    theirs, ours = tritonclient.grpc.service_pb2.DESCRIPTOR, reflected(daemon, "inference.GRPCInferenceService")
    for message in ours.message_type:
        compare(message, theirs.message_types_by_name[message.name])
    service = theirs.services_by_name["GRPCInferenceService"]
    for method in ours.service[0].method:
        other = service.methods_by_name[method.name]
        types = (f".{other.input_type.full_name}", f".{other.output_type.full_name}")
        assert (method.input_type, method.output_type) == types


def compare(ours, theirs):
    for field in ours.field:
        other = theirs.fields_by_name[field.name]
        assert (field.number, field.type) == (other.number, other.type), f"{ours.name}.{field.name}"
    for nested in ours.nested_type:
        compare(nested, theirs.nested_types_by_name[nested.name])


def reflected(daemon, symbol):
    """The file of a service, by the reflection of the daemon."""
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol)
    with grpc.insecure_channel(daemon.grpc) as channel:
        (response,) = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]))
    return FileDescriptorProto.FromString(response.file_descriptor_response.file_descriptor_proto[0])
