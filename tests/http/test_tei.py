"""TEI's API: the client of the hub, and the endpoints that it does not call."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import numpy as np
import pytest
from accelerd import Client
from conftest import DOCUMENTS, READER, TEXTS, Daemon, bits
from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError


def post(daemon: Daemon, path: str, **body: Any) -> Any:
    response = httpx.post(f"{daemon.url}{path}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def test_the_client_of_the_hub_extracts_features(daemon: Daemon, client: Client) -> None:
    hub = InferenceClient(base_url=daemon.url)
    unit = bits(client.embed(TEXTS, model="bert", normalize=True))
    assert bits(hub.feature_extraction(TEXTS[0])) == unit[:1] and bits(hub.feature_extraction(TEXTS)) == unit
    raw = hub.feature_extraction(TEXTS, normalize=False, truncate=True, truncation_direction="left")
    assert bits(raw) == bits(client.embed(TEXTS, model="bert", normalize=False, truncation_side="left"))
    prompted = hub.feature_extraction("date of", prompt_name="query")
    assert bits(prompted) == bits(client.embed(["date of"], model="bert", normalize=True, prompt_name="query"))
    assert bits(asyncio.run(AsyncInferenceClient(base_url=daemon.url).feature_extraction(TEXTS))) == unit


def test_the_client_of_the_hub_compares_sentences(daemon: Daemon, client: Client) -> None:
    vectors = client.embed(["date of", *DOCUMENTS], model="bert", normalize=True).astype(np.float64)
    got = InferenceClient(base_url=daemon.url).sentence_similarity("date of", DOCUMENTS)
    assert np.allclose(got, vectors[1:] @ vectors[0], atol=1e-6)
    inputs = {"source_sentence": "date of", "sentences": DOCUMENTS}
    assert post(daemon, "/similarity", inputs=inputs, parameters={"truncate": True}) == got


def test_refusals_are_errors_of_the_hub(daemon: Daemon, locked: Daemon) -> None:
    def status(url: str, text: Any, token: str = "none", **options: Any) -> int:
        with pytest.raises(HfHubHTTPError) as refused:
            InferenceClient(base_url=url, token=token).feature_extraction(text, **options)
        return refused.value.response.status_code

    assert status(daemon.url, []) == 400
    assert status(daemon.url, "a", prompt_name="other") == 400
    assert status(daemon.url, "a " * 500, truncate=False) == 400
    assert status(locked.url, "a", "wrong") == 401
    assert status(locked.url, "a" * 70_000, READER) == 413


def test_vectors_of_all_tokens(daemon: Daemon, client: Client) -> None:
    got = post(daemon, "/embed_all", inputs=["a b c", "date"])
    assert [len(one) for one in got] == [5, 3], "with the special tokens"
    expected = client.embed(["a b c", "date"], model="bert", pooling="none", normalize=False)
    assert bits(np.concatenate(got)) == bits(expected)


def test_ranks(daemon: Daemon, client: Client) -> None:
    expected = [(one.index, bits(one.score)) for one in client.rerank("date of", DOCUMENTS, model="reranker")]
    got = post(daemon, "/rerank", query="date of", texts=DOCUMENTS, return_text=True)
    assert [(one["index"], bits(one["score"])) for one in got] == expected
    assert [one["text"] for one in got] == [DOCUMENTS[index] for index, _ in expected]
    raw = client.rerank("date of", DOCUMENTS, model="reranker", raw_scores=True)
    got = post(daemon, "/", query="date of", texts=DOCUMENTS, raw_scores=True)
    assert [(one["index"], bits(one["score"])) for one in got] == [(one.index, bits(one.score)) for one in raw]


def test_health_and_information(daemon: Daemon) -> None:
    assert httpx.get(f"{daemon.url}/health").status_code == 200
    info = httpx.get(f"{daemon.url}/info").json()
    assert info["model_id"] == "bert" and info["model_type"] == {"embedding": {"pooling": "cls"}}
    assert info["max_input_length"] == 16 and info["max_client_batch_size"] > 1000


def test_tokens(daemon: Daemon, client: Client) -> None:
    """`start` and `stop` are bytes, as in TEI."""
    first, second = post(daemon, "/tokenize", inputs=["é defs", "漢 a"])
    assert [(one["text"], one["special"], one["start"], one["stop"]) for one in first] == [
        ("[CLS]", True, None, None),
        ("é", False, 0, 2),
        ("def", False, 3, 6),
        ("s", False, 6, 7),
        ("[SEP]", True, None, None),
    ]
    assert [(one["text"], one["special"], one["start"]) for one in second[1:-1]] == [("漢", False, 0), ("a", False, 4)]
    assert [one["id"] for one in first] == client.tokenize(["é defs"], model="bert").ids.tolist()
    (bare,) = post(daemon, "/tokenize", inputs="é defs", add_special_tokens=False)
    assert bare == first[1:-1]
    (words,) = post(daemon, "/tokenize", inputs="parseDate", model="builtin")
    assert [one["text"] for one in words] == ["parse", "Date"]
