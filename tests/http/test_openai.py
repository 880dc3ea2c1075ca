"""The SDK of OpenAI, for Python and for Node."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import openai
import pytest
import tiktoken
from accelerd import Client, _methods
from conftest import ENCODER, READER, TEXTS, Daemon, Node, bits

FOLDER = Path(__file__).parent


@pytest.fixture
def sdk(daemon: Daemon) -> openai.OpenAI:
    return openai.OpenAI(base_url=daemon.v1, api_key="none", max_retries=0)


def test_texts_have_the_vectors_of_grpc_in_order(sdk: openai.OpenAI, client: Client) -> None:
    expected = bits(client.embed(TEXTS, model="bert"))
    # The SDK asks for base64 by itself.
    for options in ({}, {"encoding_format": "float"}, {"user": "somebody"}):
        response = sdk.embeddings.create(model=ENCODER, input=TEXTS, **options)
        assert bits([one.embedding for one in response.data]) == expected
        assert [one.index for one in response.data] == list(range(len(TEXTS)))
        assert response.model == "bert" and response.usage.prompt_tokens == response.usage.total_tokens > len(TEXTS)
    raw = sdk.embeddings.create(model=ENCODER, input=TEXTS, encoding_format="base64")
    assert all(isinstance(one.embedding, str) for one in raw.data), "a caller that asks for base64 decodes it"


def test_one_text_and_the_built_in_model(sdk: openai.OpenAI, client: Client) -> None:
    response = sdk.embeddings.create(model="builtin", input="def parse(text):")
    assert bits([one.embedding for one in response.data]) == bits(client.embed(["def parse(text):"]))


def test_dimensions(sdk: openai.OpenAI, client: Client) -> None:
    sizes = next(model.supported_dimensions for model in client.models() if model.name == "builtin")
    for size in sizes:
        response = sdk.embeddings.create(model="builtin", input=TEXTS, dimensions=size)
        assert bits([one.embedding for one in response.data]) == bits(client.embed(TEXTS, dimensions=size))
    for size in (0, max(sizes) + 1):
        with pytest.raises(openai.BadRequestError) as refused:
            sdk.embeddings.create(model="builtin", input="a", dimensions=size)
        assert refused.value.param == "dimensions"


def test_token_arrays_are_texts_of_cl100k_base(sdk: openai.OpenAI, client: Client) -> None:
    encoding = tiktoken.get_encoding("cl100k_base")
    texts = ["the date of e", "def é 漢字 🎉"]
    expected = bits(client.embed(texts, model="bert"))
    lists = [encoding.encode(text) for text in texts]
    assert bits([one.embedding for one in sdk.embeddings.create(model="bert", input=lists).data]) == expected
    assert bits([one.embedding for one in sdk.embeddings.create(model="bert", input=lists[0]).data]) == expected[:1]


def test_the_asynchronous_client(daemon: Daemon, client: Client) -> None:
    async def embed() -> list[openai.types.CreateEmbeddingResponse]:
        async with openai.AsyncOpenAI(base_url=daemon.v1, api_key="none") as sdk:
            return await asyncio.gather(*(sdk.embeddings.create(model="bert", input=text) for text in TEXTS))

    vectors = [response.data[0].embedding for response in asyncio.run(embed())]
    assert bits(vectors) == bits(client.embed(TEXTS, model="bert"))


def test_models(sdk: openai.OpenAI) -> None:
    names = {model.id for model in sdk.models.list()}
    assert {"builtin", "bert", ENCODER, "reranker"} <= names
    assert sdk.models.retrieve(ENCODER).id == ENCODER
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("org/other")


@pytest.mark.parametrize("empty", ["", [], ["a", ""], [[]]])
def test_an_input_without_text_is_a_bad_request(sdk: openai.OpenAI, empty: object) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        sdk.embeddings.create(model="bert", input=empty)
    assert refused.value.param == "input"


def test_an_unknown_model_is_not_found(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        sdk.embeddings.create(model="text-embedding-ada-002", input="a")
    assert missing.value.code == "model_not_found" and "text-embedding-ada-002" in missing.value.message


def test_calls_of_other_apis_are_not_found(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        sdk.chat.completions.create(model="bert", messages=[{"role": "user", "content": "a"}])
    assert "/v1/chat/completions" in missing.value.message


def test_tokens_roles_and_sizes(locked: Daemon) -> None:
    def sdk(token: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=locked.v1, api_key=token, max_retries=0)

    assert len(sdk(READER).embeddings.create(model="bert", input=TEXTS).data) == len(TEXTS)
    with pytest.raises(openai.AuthenticationError) as refused:
        sdk("wrong").embeddings.create(model="bert", input="a")
    assert refused.value.code == "invalid_api_key"
    with pytest.raises(openai.APIStatusError) as large:
        sdk(READER).embeddings.create(model="bert", input="a" * 70_000)
    assert large.value.status_code == 413 and "max_message_bytes" in large.value.message
    with pytest.raises(openai.PermissionDeniedError):
        sdk(READER).post(f"/..{_methods.EmbedService.LOAD_MODEL.path}", body={"name": "x", "path": "/x"}, cast_to=object)


def test_a_deadline_is_an_error_of_the_server(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as late:
        sdk.embeddings.create(model="bert", input="a", extra_headers={"accelerd-timeout": "0ms"})
    assert late.value.status_code == 504


def test_the_sdk_of_node(daemon: Daemon, client: Client, node: Node) -> None:
    got = json.loads(node((FOLDER / "node/openai.mjs").read_text(), BASE_URL=daemon.v1, TEXTS=json.dumps(TEXTS)))
    expected = client.embed(TEXTS, model="bert")
    assert bits(got["vectors"]) == bits(expected) and bits(got["one"]) == bits(expected[0])
    assert bits(got["floats"]) == bits(expected)
    assert got["missing"] == ["NotFoundError", 404] and "bert" in got["models"]
    assert np.shape(got["short"]) == (1, 64)
