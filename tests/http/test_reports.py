"""What users reported of other servers of these APIs, and what clients do to HTTP."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import socket
from typing import Any

import cohere
import httpx
import numpy as np
import openai
import pytest
from accelerd import Client
from conftest import DOCUMENTS, ENCODER, RERANKER, Daemon, bits
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
from llama_index.postprocessor.jinaai_rerank import JinaRerank

BODY = json.dumps({"model": "bert", "input": ["a", "b"]}).encode()
JSON = {"content-type": "application/json"}


@pytest.fixture
def expected(client: Client) -> Any:
    return bits(client.embed(["a", "b"], model="bert"))


def post(daemon: Daemon, body: Any, path: str = "/v1/embeddings", **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(f"{daemon.url}{path}", content=content, headers={**JSON, **named})


def vectors(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return bits([one["embedding"] for one in response.json()["data"]])


def raw(daemon: Daemon, sent: bytes, responses: int = 1) -> list[tuple[int, bytes]]:
    """Sends bytes on one connection, and reads responses."""
    address, port = daemon.http.split(":")
    with socket.create_connection((address, int(port)), timeout=20) as connection:
        connection.sendall(sent)
        read = connection.makefile("rb")
        return [one_response(read) for _ in range(responses)]


def one_response(read: Any) -> tuple[int, bytes]:
    status = int(read.readline().split()[1])
    length = 0
    while (line := read.readline().strip().lower()) != b"":
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return status, read.read(length)


def message(body: bytes, *headers: str, version: str = "1.1") -> bytes:
    head = [f"POST /v1/embeddings HTTP/{version}", "Host: localhost", "Content-Type: application/json", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "extra",
    [
        {"encoding_format": None},
        {"dimensions": None, "user": None},
        {"user": 5, "truncate_prompt_tokens": -1, "embedding_format": "float"},
        {"encoding_format": "float", "input_type": "query", "extra": {"a": [1]}},
        {"model": ENCODER},
    ],
    ids=str,
)
def test_values_that_clients_add_are_accepted(daemon: Daemon, expected: Any, extra: dict[str, Any]) -> None:
    assert vectors(post(daemon, {"model": "bert", "input": ["a", "b"], **extra})) == expected


def test_a_request_without_a_model_has_the_configured_one(daemon: Daemon, expected: Any) -> None:
    for model in ({}, {"model": None}, {"model": ""}):
        assert vectors(post(daemon, {"input": ["a", "b"], **model})) == expected


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"input": "a", "encoding_format": "md5"}, '"float" or "base64"'),
        ({"input": "a", "encoding_format": ["float", "base64"]}, "encoding_format"),
        ({"input": [""]}, "no empty one"),
        ({"input": []}, "at least one text"),
        ({"input": None}, "null"),
        ({}, "missing field `input`"),
        ({"input": {"text": "a"}}, "expected a string"),
        ({"input": [["a"]]}, "a list of token ids"),
        ({"input": ["a", 1]}, "expected a string"),
        ({"input": [4_294_967_296]}, "a token id"),
        ({"input": [-1]}, "a token id"),
        ({"input": [100_256]}, "cl100k_base"),
        ({"input": "a", "dimensions": 1.5}, "1.5"),
        ({"input": "a", "dimensions": -1}, "-1"),
        ({"input": "a", "dimensions": 1000, "model": "bert"}, "expected 0 to 32, got 1000"),
        ({"input": "a", "model": "reranker"}, "Rerank"),
        (b'{"input": NaN}', "line 1"),
        (b'{"input": "a", "input": "b"}', "duplicate field `input`"),
        (b'{"input": "\\ud83d"}', "surrogate pair"),
        (b'{"input": "\xff"}', "line 1"),
        (json.dumps({"input": "a"}).encode("utf-16"), "line 1"),
        (b"", "EOF"),
        (b'{"input": "a"} x', "trailing"),
        (b'{"encoding_format": ' + b"[" * 100_000, "recursion limit"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_malformed_bodies_are_bad_requests_that_say_why(daemon: Daemon, body: Any, said: str) -> None:
    response = post(daemon, body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error" and said in error["message"]


def test_a_text_beyond_the_context_is_truncated(daemon: Daemon) -> None:
    response = post(daemon, {"model": "bert", "input": "a " * 5000})
    assert len(vectors(response)[0]) == 32 and response.json()["usage"]["total_tokens"] == 16


def test_token_ids_of_the_model_are_checked(daemon: Daemon, client: Client) -> None:
    got = post(daemon, {"inputs": [[2, 5, 3]]}, "/embed")
    assert bits(got.json()) == bits(client.embed_tokens([[2, 5, 3]], model="bert", normalize=True))
    assert post(daemon, {"inputs": [[2, 48, 3]]}, "/embed").status_code == 400


def test_many_texts_are_one_request(daemon: Daemon, client: Client) -> None:
    texts = [f"def f{number}(): pass" for number in range(3000)]
    response = post(daemon, {"model": "builtin", "input": texts, "encoding_format": "base64"})
    got = np.array([np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in response.json()["data"]])
    assert bits(got) == bits(client.embed(texts))
    assert post(daemon, {"model": "builtin", "input": ["a"] * 16_385}).status_code == 400


@pytest.mark.parametrize("end", ["", "/", "//"])
def test_base_urls_that_end_with_a_slash_or_lack_the_version(daemon: Daemon, expected: Any, end: str) -> None:
    for base in (f"{daemon.v1}{end}", f"{daemon.url}{end}"):
        data = openai.OpenAI(base_url=base, api_key="none").embeddings.create(model="bert", input=["a", "b"]).data
        assert bits([one.embedding for one in data]) == expected
    assert vectors(post(daemon, BODY, f"/v1{end}/embeddings{end}")) == expected
    ranked = cohere.ClientV2("none", base_url=daemon.url + end).rerank(model=RERANKER, query="a", documents=DOCUMENTS)
    assert len(ranked.results) == len(DOCUMENTS)
    assert len(TextEmbeddingsInference(model_name="bert", base_url=daemon.url + end).get_text_embedding("a")) == 32


def test_the_version_twice_is_not_found_by_its_path(daemon: Daemon) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        openai.OpenAI(base_url=f"{daemon.v1}/v1", api_key="none").embeddings.create(model="bert", input="a")
    assert "/v1/v1/embeddings" in missing.value.message


def test_documents_are_ranked_at_the_path_of_tei_too(daemon: Daemon) -> None:
    """vLLM and Infinity have Jina's API there."""
    body = {"query": "a", "documents": ["b", {"text": "a"}], "model": RERANKER, "return_documents": False, "top_n": None}
    got = post(daemon, body, "/rerank").json()
    assert got == {**post(daemon, body, "/v1/rerank").json(), "id": got["id"]}
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.0) for text in DOCUMENTS]
    found = JinaRerank(model=RERANKER, api_key="none", base_url=daemon.url).postprocess_nodes(nodes, query_str="a")
    assert len(found) == 2
    assert post(daemon, {"query": "a"}, "/rerank").status_code == 400


def test_methods_that_do_not_apply(daemon: Daemon) -> None:
    for method, path, status in [
        ("HEAD", "/health", 200),
        ("HEAD", "/v1/models", 200),
        ("OPTIONS", "/v1/embeddings", 405),
        ("GET", "/v1/embeddings", 405),
        ("PUT", "/embed", 405),
        ("GET", "/v1/embeddings/x", 404),
    ]:
        response = httpx.request(method, f"{daemon.url}{path}")
        assert response.status_code == status, (method, path)
        assert status != 405 or response.headers["allow"] == "POST"
        assert method != "HEAD" or response.content == b""


def test_health_needs_no_token(locked: Daemon) -> None:
    assert httpx.get(f"{locked.url}/health").status_code == 200
    for authorization in ("", "Bearer", "Basic YTpi", "bearer wrong"):
        response = httpx.get(f"{locked.url}/v1/models", headers={"authorization": authorization})
        assert response.status_code == 401 and response.headers["www-authenticate"] == "Bearer", authorization


def test_an_open_daemon_ignores_credentials(daemon: Daemon, expected: Any) -> None:
    for authorization in ("", "Bearer", "Basic YTpi", "Bearer sk-proj-1"):
        assert vectors(post(daemon, BODY, authorization=authorization)) == expected, authorization


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/Json"])
def test_types_with_parameters(daemon: Daemon, expected: Any, content_type: str) -> None:
    assert vectors(post(daemon, BODY, content_type=content_type)) == expected


def test_other_types_are_refused_and_none_is_json(daemon: Daemon) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert post(daemon, BODY, content_type=content_type).status_code == 415
    untyped = f"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    assert raw(daemon, untyped + BODY)[0][0] == 200


def test_bodies_may_be_compressed_chunked_or_start_with_a_byte_order_mark(daemon: Daemon, expected: Any) -> None:
    assert vectors(post(daemon, gzip.compress(BODY), content_encoding="gzip")) == expected
    assert vectors(post(daemon, b"\xef\xbb\xbf" + BODY)) == expected
    assert vectors(post(daemon, BODY, content_encoding="identity")) == expected
    chunks = httpx.post(f"{daemon.v1}/embeddings", content=iter([BODY[:5], BODY[5:]]), headers=JSON)
    assert vectors(chunks) == expected
    assert post(daemon, BODY, content_encoding="gzip").status_code == 400
    assert post(daemon, BODY, content_encoding="br").status_code == 415


def test_version_1_0_of_http(daemon: Daemon) -> None:
    ((status, body),) = raw(daemon, message(BODY, f"Content-Length: {len(BODY)}", version="1.0"))
    assert status == 200 and len(json.loads(body)["data"]) == 2


def test_a_client_that_expects_100_continue_gets_it(daemon: Daemon) -> None:
    address, port = daemon.http.split(":")
    with socket.create_connection((address, int(port)), timeout=20) as connection:
        connection.sendall(message(b"", f"Content-Length: {len(BODY)}", "Expect: 100-continue"))
        read = connection.makefile("rb")
        assert one_response(read)[0] == 100
        connection.sendall(BODY)
        assert one_response(read)[0] == 200


def test_requests_may_be_pipelined(daemon: Daemon) -> None:
    bodies = [json.dumps({"model": "bert", "input": ["a"] * count}).encode() for count in (3, 1, 2)]
    sent = b"".join(message(body, f"Content-Length: {len(body)}") for body in bodies)
    responses = raw(daemon, sent, responses=3)
    assert [len(json.loads(body)["data"]) for _, body in responses] == [3, 1, 2]


def test_a_connection_serves_on_after_an_error(daemon: Daemon) -> None:
    connection = http.client.HTTPConnection(daemon.http, timeout=20)
    for path, body, status in [
        ("/v1/embeddings", b"{", 400),
        ("/v1/embeddings", b'{"model": "other", "input": "a"}', 404),
        ("/none", b"x" * 10_000, 404),
        ("/v1/embeddings", BODY, 200),
    ]:
        connection.request("POST", path, body, JSON)
        response = connection.getresponse()
        assert (response.status, bool(response.read())) == (status, True), path
    connection.close()


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(locked: Daemon) -> None:
    announced = message(b"", "Content-Length: 70000", "Expect: 100-continue")
    assert raw(locked, announced)[0][0] == 413


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: -1",),
        ("Transfer-Encoding: gzip, x",),
        ("Content Length: 5",),
    ],
    ids=str,
)
def test_headers_of_request_smuggling_are_refused(daemon: Daemon, headers: tuple[str, ...]) -> None:
    smuggled = b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    status, _ = raw(daemon, message(smuggled, *headers))[0]
    assert status == 400
