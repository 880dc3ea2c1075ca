"""Tests of embeddings, similarity and clusters."""

from __future__ import annotations

from unittest import mock

import accelerd
import grpc
import numpy as np
import pytest

from portalis_cuda import CUDAEmbeddingGenerator, _embedding, cluster_code_snippets

TABLE = np.random.default_rng(1).standard_normal((50, 8)).astype(np.float32)


def expected(sequences: list[list[int]], limit: int) -> np.ndarray:
    """Embeddings in double precision."""
    means = []
    for sequence in sequences:
        rows = [TABLE[one].astype(float) if one < len(TABLE) else np.zeros(8) for one in sequence[:limit]]
        mean = np.mean(rows, axis=0) if rows else np.zeros(8)
        means.append(mean / (np.linalg.norm(mean) or 1.0))
    return np.array(means)


def test_an_embedding_is_the_mean_of_rows_at_unit_length(client: accelerd.Client) -> None:
    sequences = [[1, 2, 3], [4], [], [7] * 5, [0, 49, 50, 99], [9, 8, 7, 6, 5, 4]]
    with CUDAEmbeddingGenerator(50, 8, 5, TABLE, client=client) as embedder:
        result = embedder.encode(sequences)
        assert result.success and result.embeddings.dtype == np.float32
        np.testing.assert_allclose(result.embeddings, expected(sequences, 5), atol=1e-6)
        with mock.patch.object(_embedding, "_MAX_CALL_BYTES", 1):
            assert np.array_equal(embedder.encode(sequences).embeddings, result.embeddings)
        padded = np.array([[1, 2, 3], [4, 5, 6]])
        np.testing.assert_allclose(embedder.encode(padded).embeddings, expected(padded.tolist(), 5), atol=1e-6)
        assert embedder.encode([]).embeddings.shape == (0, 8)
        assert result.metrics["throughput_seq_per_sec"] == pytest.approx(6e3 / result.metrics["encoding_time_ms"])
        assert result.metrics["sequences_processed"] == 6 and result.metrics["gpu_memory_used_mb"] >= 0
        assert embedder.encode(sequences, return_metrics=False).metrics == {}


def test_a_random_table_depends_on_its_seed_and_sizes(client: accelerd.Client) -> None:
    def embedded(seed: int) -> np.ndarray:
        with CUDAEmbeddingGenerator(1000, 16, seed=seed, client=client) as embedder:
            return embedder.encode([[1, 2, 3], [3, 2, 1], [500]]).embeddings

    assert np.array_equal(embedded(0), embedded(0))
    assert not np.allclose(embedded(0), embedded(1))
    np.testing.assert_allclose(embedded(0)[0], embedded(0)[1], atol=1e-6)


def test_the_table_is_on_the_daemon_until_it_is_closed_and_comes_back_if_it_is_lost(client: accelerd.Client) -> None:
    before = len(client.list_tensors())
    with CUDAEmbeddingGenerator(50, 8, 5, TABLE, client=client) as embedder:
        first = embedder.encode([[1, 2]])
        (kept,) = client.list_tensors()[before:]
        assert kept.shape == (51, 8)
        assert embedder.encode([[1, 2]]).success and len(client.list_tensors()) == before + 1
        embedder._resident.free()  # type: ignore[union-attr]
        again = embedder.encode([[1, 2]])
        assert again.success and np.array_equal(again.embeddings, first.embeddings)
    assert len(client.list_tensors()) == before


def test_a_failed_call_is_an_unsuccessful_result(client: accelerd.Client) -> None:
    problem = accelerd.BusyError(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "full", accelerd.ErrorDetails(reason="MEMORY_LIMIT")
    )
    with mock.patch.object(client, "op", side_effect=problem):
        result = CUDAEmbeddingGenerator(50, 8, client=client).encode([[1]])
    assert not result.success and "out of memory" in (result.error or "")
    assert result.embeddings.shape == (0, 8)


def test_bad_arguments_are_named(client: accelerd.Client) -> None:
    with pytest.raises(ValueError, match=r"pretrained_embeddings: expected shape \(50, 9\), got \(50, 8\)"):
        CUDAEmbeddingGenerator(50, 9, pretrained_embeddings=TABLE, client=client)
    with pytest.raises(ValueError, match="embedding_dim: expected at least 1, got 0"):
        CUDAEmbeddingGenerator(50, 0, client=client)
    embedder = CUDAEmbeddingGenerator(50, 8, client=client)
    with pytest.raises(ValueError, match=r"token_sequences\[1\]: expected ids from 0, got -1"):
        embedder.encode([[1], [-1]])
    with pytest.raises(ValueError, match=r"token_sequences\[0\]: expected a list of token ids, got \['a'\]"):
        embedder.encode([["a"]])


def test_similar_rows_are_those_with_the_largest_cosine(client: accelerd.Client) -> None:
    queries, corpus = TABLE[:5] * 3, TABLE
    found = CUDAEmbeddingGenerator(50, 8, client=client).find_similar(queries, corpus, top_k=4)
    indices, scores = found
    assert indices.shape == scores.shape == (5, 4) and found.indices is indices
    unit = corpus.astype(float) / np.linalg.norm(corpus.astype(float), axis=1, keepdims=True)
    cosine = unit[:5] @ unit.T
    assert np.array_equal(indices, np.argsort(-cosine, axis=1)[:, :4])
    np.testing.assert_allclose(scores, -np.sort(-cosine, axis=1)[:, :4], atol=1e-6)
    with pytest.raises(ValueError, match="expected"):
        CUDAEmbeddingGenerator(50, 8, client=client).find_similar(queries, corpus, top_k=51)


def test_snippets_that_share_tokens_share_a_cluster(client: accelerd.Client) -> None:
    rng = np.random.default_rng(0)
    groups = [rng.choice(np.arange(100 * group, 100 * group + 6), (10, 12)) for group in range(3)]
    sequences = np.concatenate(groups)
    # What is beyond a length does not count.
    padded = np.concatenate([sequences, rng.integers(0, 300, (30, 8))], axis=1)
    ids, centers = cluster_code_snippets(padded, [12] * 30, 3, client=client)
    assert centers.shape == (3, 256) and ids.shape == (30,)
    assert [len(set(ids[10 * group : 10 * group + 10])) for group in range(3)] == [1, 1, 1] and len(set(ids)) == 3
    with CUDAEmbeddingGenerator(300, 16, client=client) as embedder:
        assert cluster_code_snippets(list(sequences), None, 2, embedder=embedder)[1].shape == (2, 16)
    with pytest.raises(ValueError, match="sequence_lengths: expected 30, got 1"):
        cluster_code_snippets(padded, [12], 3, client=client)
