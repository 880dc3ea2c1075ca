"""Rerankers: the SDK of Cohere, and the classes of LangChain and LlamaIndex for Cohere and Jina."""

from __future__ import annotations

import asyncio
from typing import Any

import cohere
import httpx
import pytest
from accelerd import Client
from conftest import DOCUMENTS, READER, RERANKER, Daemon, bits
from langchain_cohere import CohereRerank
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.postprocessor.cohere_rerank import CohereRerank as LlamaCohereRerank
from llama_index.postprocessor.jinaai_rerank import JinaRerank

QUERY = "date of"
MESSAGE = {"query": QUERY, "documents": DOCUMENTS, "model": RERANKER}


@pytest.fixture
def expected(client: Client) -> list[tuple[int, Any]]:
    return [(one.index, bits(one.score)) for one in client.rerank(QUERY, DOCUMENTS, model="reranker")]


def pairs(results: Any) -> list[tuple[int, Any]]:
    return [(one.index, bits(one.relevance_score)) for one in results]


def sdk(daemon: Daemon, kind: Any = cohere.ClientV2, token: str = "none") -> Any:
    return kind(token, base_url=daemon.url)


def test_both_versions_of_cohere_have_the_scores_of_grpc(daemon: Daemon, expected: list[tuple[int, Any]]) -> None:
    assert len({index for index, _ in expected}) == len(DOCUMENTS)
    second = sdk(daemon).rerank(**MESSAGE)
    assert pairs(second.results) == expected and second.meta.billed_units.search_units == 1
    assert pairs(sdk(daemon).rerank(**MESSAGE, top_n=2, max_tokens_per_doc=4096).results) == expected[:2]
    first = sdk(daemon, cohere.Client).rerank(**MESSAGE, return_documents=True)
    assert pairs(first.results) == expected
    assert [one.document.text for one in first.results] == [DOCUMENTS[index] for index, _ in expected]
    bare = sdk(daemon, cohere.Client).rerank(**{**MESSAGE, "documents": [{"text": text} for text in DOCUMENTS]})
    assert pairs(bare.results) == expected


def test_the_asynchronous_client_of_cohere(daemon: Daemon, expected: list[tuple[int, Any]]) -> None:
    async def rerank() -> Any:
        async with cohere.AsyncClientV2("none", base_url=daemon.url) as client:
            return await client.rerank(**MESSAGE)

    assert pairs(asyncio.run(rerank()).results) == expected


def test_refusals_are_those_of_cohere(daemon: Daemon, locked: Daemon) -> None:
    with pytest.raises(cohere.NotFoundError) as missing:
        sdk(daemon).rerank(**{**MESSAGE, "model": "rerank-v3.5"})
    assert "rerank-v3.5" in missing.value.body["message"]
    with pytest.raises(cohere.BadRequestError):
        sdk(daemon).rerank(**{**MESSAGE, "model": "bert"})
    with pytest.raises(cohere.BadRequestError):
        sdk(daemon).rerank(**MESSAGE, top_n=0)
    with pytest.raises(cohere.BadRequestError):
        sdk(daemon).rerank(**{**MESSAGE, "documents": []})
    with pytest.raises(cohere.UnauthorizedError):
        sdk(locked, token="wrong").rerank(**MESSAGE)
    assert len(sdk(locked, token=READER).rerank(**MESSAGE).results) == len(DOCUMENTS)


def test_the_shape_of_jina(daemon: Daemon, expected: list[tuple[int, Any]]) -> None:
    """Jina returns documents unless told otherwise."""
    answer = httpx.post(f"{daemon.v1}/rerank", json={**MESSAGE, "top_n": 3}).json()
    assert [(one["index"], bits(one["relevance_score"])) for one in answer["results"]] == expected[:3]
    assert [one["document"] for one in answer["results"]] == [{"text": DOCUMENTS[index]} for index, _ in expected[:3]]
    assert answer["usage"]["total_tokens"] > 0 and answer["model"] == "reranker"
    without = httpx.post(f"{daemon.v1}/rerank", json={**MESSAGE, "return_documents": False}).json()
    assert [set(one) for one in without["results"]] == [{"index", "relevance_score"}] * len(DOCUMENTS)


def test_langchain(daemon: Daemon, expected: list[tuple[int, Any]]) -> None:
    reranker = CohereRerank(model=RERANKER, cohere_api_key="none", base_url=daemon.url, top_n=3)
    found = reranker.compress_documents([Document(page_content=text) for text in DOCUMENTS], QUERY)
    assert [one.page_content for one in found] == [DOCUMENTS[index] for index, _ in expected[:3]]
    assert [bits(one.metadata["relevance_score"]) for one in found] == [score for _, score in expected[:3]]


def test_llama_index(daemon: Daemon, expected: list[tuple[int, Any]]) -> None:
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.0) for text in DOCUMENTS]
    rerankers = [
        LlamaCohereRerank(model=RERANKER, api_key="none", base_url=daemon.url, top_n=3),
        JinaRerank(model=RERANKER, api_key="none", base_url=daemon.v1, top_n=3),
    ]
    for reranker in rerankers:
        found = reranker.postprocess_nodes(nodes, query_str=QUERY)
        assert [one.node.get_content() for one in found] == [DOCUMENTS[index] for index, _ in expected[:3]]
        assert [bits(one.score) for one in found] == [score for _, score in expected[:3]]
