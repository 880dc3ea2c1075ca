"""LangChain, LlamaIndex and Haystack, by their classes for OpenAI and for TEI."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from accelerd import Client
from conftest import ENCODER, READER, TEXTS, Daemon, bits
from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.utils import Secret
from haystack_integrations.components.embedders.huggingface_api import (
    HuggingFaceAPIDocumentEmbedder,
    HuggingFaceAPITextEmbedder,
)
from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError
from langchain_huggingface import HuggingFaceEndpointEmbeddings
from langchain_openai import OpenAIEmbeddings
from llama_index.embeddings.openai import OpenAIEmbedding
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

# LlamaIndex and Haystack strip or replace the blank text.
PLAIN = [text for text in TEXTS if text.strip()]


@pytest.fixture
def expected(client: Client) -> Any:
    return bits(client.embed(PLAIN, model="bert"))


@pytest.fixture
def unit(client: Client) -> Any:
    """The vectors of TEI, which have unit length unless a request says otherwise."""
    return bits(client.embed(PLAIN, model="bert", normalize=True))


def test_langchain_openai(daemon: Daemon, expected: Any) -> None:
    """Sends token ids of cl100k_base, and texts if told so."""
    for options in ({}, {"check_embedding_ctx_length": False}, {"chunk_size": 2}):
        embeddings = OpenAIEmbeddings(model="bert", base_url=daemon.v1, api_key="none", max_retries=0, **options)
        assert bits(embeddings.embed_documents(PLAIN)) == expected
        assert bits(embeddings.embed_query(PLAIN[0])) == expected[0]
        assert bits(asyncio.run(embeddings.aembed_documents(PLAIN))) == expected


def test_langchain_openai_averages_the_parts_of_a_text_beyond_the_context(daemon: Daemon) -> None:
    embeddings = OpenAIEmbeddings(model="bert", base_url=daemon.v1, api_key="none", embedding_ctx_length=16)
    vectors = embeddings.embed_documents(["a b c d " * 20, "date of the e"])
    assert [len(vector) for vector in vectors] == [32, 32]


def test_langchain_openai_raises_the_errors_of_the_sdk(daemon: Daemon, locked: Daemon) -> None:
    with pytest.raises(openai.NotFoundError):
        OpenAIEmbeddings(model="other", base_url=daemon.v1, api_key="none").embed_query("a")
    with pytest.raises(openai.AuthenticationError):
        OpenAIEmbeddings(model="bert", base_url=locked.v1, api_key="wrong").embed_query("a")


def test_langchain_huggingface(daemon: Daemon, locked: Daemon, unit: Any) -> None:
    """The class takes names of the hub only; its client may be that of a server."""

    def embeddings(daemon: Daemon, token: str) -> HuggingFaceEndpointEmbeddings:
        made = HuggingFaceEndpointEmbeddings(model=ENCODER, huggingfacehub_api_token=token)
        made.client = InferenceClient(base_url=daemon.url, token=token)
        made.async_client = AsyncInferenceClient(base_url=daemon.url, token=token)
        return made

    plain = embeddings(daemon, "none")
    # It replaces line breaks by spaces.
    assert bits(plain.embed_documents(PLAIN)) == unit
    assert bits(plain.embed_query(PLAIN[0])) == unit[0]
    assert bits(asyncio.run(plain.aembed_documents(PLAIN))) == unit
    assert bits(embeddings(locked, READER).embed_documents(PLAIN)) == unit
    with pytest.raises(HfHubHTTPError) as refused:
        embeddings(locked, "wrong").embed_query("a")
    assert refused.value.response.status_code == 401


def test_llama_index_openai(daemon: Daemon, expected: Any) -> None:
    embedding = OpenAIEmbedding(model_name="bert", api_base=daemon.v1, api_key="none", embed_batch_size=2)
    assert bits(embedding.get_text_embedding_batch(PLAIN)) == expected
    assert bits(embedding.get_query_embedding(PLAIN[0])) == expected[0]
    assert bits(asyncio.run(embedding.aget_text_embedding_batch(PLAIN))) == expected


def test_llama_index_tei(daemon: Daemon, locked: Daemon, unit: Any) -> None:
    embedding = TextEmbeddingsInference(model_name="bert", base_url=daemon.url, embed_batch_size=3)
    assert bits(embedding.get_text_embedding_batch(PLAIN)) == unit
    assert bits(embedding.get_text_embedding(PLAIN[0])) == unit[0]
    assert bits(asyncio.run(embedding.aget_text_embedding_batch(PLAIN))) == unit
    signed = TextEmbeddingsInference(model_name="bert", base_url=locked.url, auth_token=READER)
    assert bits(signed.get_query_embedding(PLAIN[0])) == unit[0]


def test_haystack_openai(daemon: Daemon, expected: Any) -> None:
    options = {"model": "bert", "api_base_url": daemon.v1, "api_key": Secret.from_token("none")}
    assert bits(OpenAITextEmbedder(**options).run(PLAIN[0])["embedding"]) == expected[0]
    documents = OpenAIDocumentEmbedder(**options, batch_size=2).run([Document(content=text) for text in PLAIN])["documents"]
    assert bits([one.embedding for one in documents]) == expected


def test_haystack_tei(daemon: Daemon, expected: Any) -> None:
    options = {"api_type": "text_embeddings_inference", "api_params": {"url": daemon.url}, "token": None}
    assert bits(HuggingFaceAPITextEmbedder(**options).run(PLAIN[0])["embedding"]) == expected[0]
    embedder = HuggingFaceAPIDocumentEmbedder(**options, batch_size=2)
    documents = embedder.run([Document(content=text) for text in PLAIN])["documents"]
    assert bits([one.embedding for one in documents]) == expected
