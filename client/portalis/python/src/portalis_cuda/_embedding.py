"""Embeddings of token ids by a table, similarity and clusters: `CUDAEmbeddingGenerator`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from accelerd import AccelerdError, Client, NotFoundError, Similar, Tensor
from numpy.typing import ArrayLike, NDArray

from ._daemon import GpuMeter, default_client, error_text, gpu_memory_mb

#: Bytes of the rows of the table that a call reads.
_MAX_CALL_BYTES = 64 << 20
#: Dimensions of the table of `cluster_code_snippets`.
_CLUSTER_DIM = 256


@dataclass(frozen=True)
class EmbeddingConfig:
    """Sizes of an embedding table, and how many tokens of a sequence it reads."""

    vocab_size: int
    embedding_dim: int
    max_sequence_length: int


@dataclass
class EmbeddingResult:
    """Embeddings of sequences."""

    #: float32 [sequences, embedding_dim].
    embeddings: NDArray[np.float32]
    #: `total_time_ms` and `encoding_time_ms` at the caller, without the upload of the table; `sequences_processed`,
    #: `throughput_seq_per_sec`; `gpu_memory_used_mb` of the daemon, 0.0 on the CPU.
    metrics: dict[str, float]
    success: bool
    #: Why there are no embeddings. It contains "out of memory" where memory was the reason.
    error: str | None = None


class CUDAEmbeddingGenerator:
    """A table of embeddings on a device of the daemon."""

    def __init__(
        self,
        vocab_size: int = 50_000,
        embedding_dim: int = 768,
        max_sequence_length: int = 512,
        pretrained_embeddings: ArrayLike | None = None,
        *,
        seed: int = 0,
        client: Client | None = None,
    ) -> None:
        """Create a generator. Its table is sent to the daemon by the first call of `encode`.

        Args:
            vocab_size: Rows of the table.
            embedding_dim: Columns of the table.
            max_sequence_length: Tokens of a sequence that are read; the rest is ignored.
            pretrained_embeddings: The table, [vocab_size, embedding_dim]. None is a table of normally distributed
                numbers, which are equal for equal sizes and seeds, on every device.
            seed: Seed of that table.
            client: A client of the daemon; by default that of this process, which README.md describes.

        Raises:
            ValueError: A size is not positive, or the table does not have the given shape.
        """
        self.config = EmbeddingConfig(vocab_size, embedding_dim, max_sequence_length)
        for name, size in vars(self.config).items():
            if size < 1:
                raise ValueError(f"{name}: expected at least 1, got {size}")
        self._pretrained = None if pretrained_embeddings is None else np.asarray(pretrained_embeddings, np.float32)
        if self._pretrained is not None and self._pretrained.shape != (vocab_size, embedding_dim):
            expected, got = (vocab_size, embedding_dim), self._pretrained.shape
            raise ValueError(f"pretrained_embeddings: expected shape {expected}, got {got}")
        self._seed = seed
        self._client = client or default_client()
        self._meter = GpuMeter(self._client)
        self._resident: Tensor | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> CUDAEmbeddingGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the table on the daemon, which otherwise frees it some time after its last use."""
        with self._lock:
            table, self._resident = self._resident, None
        if table is not None:
            table.free()

    def encode(self, token_sequences: Sequence[ArrayLike], return_metrics: bool = True) -> EmbeddingResult:
        """Embed sequences of token ids: the mean of their rows of the table, scaled to unit length.

        An id outside of the vocabulary counts as a row of zeros. A sequence without tokens has the embedding zero. A
        call that fails is an unsuccessful result.

        Raises:
            ValueError: A sequence is not a list of ids, or has a negative one.
        """
        sequences = [self._ids(sequence, at) for at, sequence in enumerate(token_sequences)]
        try:
            return self._encode(sequences, return_metrics)
        except AccelerdError as problem:
            empty = np.zeros((0, self.config.embedding_dim), np.float32)
            return EmbeddingResult(empty, {}, success=False, error=error_text(problem))

    def find_similar(self, query_embeddings: ArrayLike, corpus_embeddings: ArrayLike, top_k: int = 10) -> Similar:
        """Find the rows of a corpus with the largest cosine similarity to each query.

        Returns:
            `indices` and `scores`, [queries, top_k], best first.

        Raises:
            ValueError: `top_k` exceeds the rows of the corpus, or the rows have different lengths.
        """
        return self._client.find_similar(query_embeddings, corpus_embeddings, k=top_k, metric="cosine")

    def _ids(self, sequence: ArrayLike, at: int) -> NDArray[np.int32]:
        """Return the ids that are read. Those outside of the vocabulary become that of the row of zeros."""
        ids = np.asarray(sequence)[: self.config.max_sequence_length]
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise ValueError(f"token_sequences[{at}]: expected a list of token ids, got {sequence!r}")
        if ids.size and ids.min() < 0:
            raise ValueError(f"token_sequences[{at}]: expected ids from 0, got {ids.min()}")
        read: NDArray[np.int32] = np.minimum(ids, self.config.vocab_size).astype(np.int32)
        return read

    def _encode(self, sequences: list[NDArray[np.int32]], return_metrics: bool) -> EmbeddingResult:
        try:
            embeddings, seconds = self._computed(sequences, self._table())
        except NotFoundError:
            # The table has expired, or the daemon was restarted.
            self._resident = None
            embeddings, seconds = self._computed(sequences, self._table())
        metrics = self._metrics(len(sequences), seconds) if return_metrics else {}
        return EmbeddingResult(embeddings, metrics, success=True)

    def _metrics(self, count: int, seconds: float) -> dict[str, float]:
        return {
            "encoding_time_ms": 1e3 * seconds,
            "total_time_ms": 1e3 * seconds,
            "sequences_processed": count,
            "throughput_seq_per_sec": count / seconds,
            "gpu_memory_used_mb": gpu_memory_mb(self._meter.sample()),
        }

    def _table(self) -> Tensor:
        """Return the table on the daemon, followed by a row of zeros."""
        with self._lock:
            if self._resident is None:
                vocab_size, dim = self.config.vocab_size, self.config.embedding_dim
                if self._pretrained is None:
                    rows = self._client.op("randn", shape=[vocab_size, dim], dtype="f32", seed=self._seed)
                else:
                    rows = self._client.tensor(self._pretrained)
                zeros = self._client.op("full", shape=[1, dim], value=0.0, dtype="f32")
                self._resident = self._client.op("concat", rows, zeros, dim=0).keep()
            return self._resident

    def _computed(self, sequences: list[NDArray[np.int32]], table: Tensor) -> tuple[NDArray[np.float32], float]:
        """Return the embeddings, and the seconds that it took to compute them."""
        start = time.perf_counter()
        parts = [self._means(ids, lengths, table) for ids, lengths in self._batches(sequences)]
        embeddings = np.concatenate([np.zeros((0, self.config.embedding_dim), np.float32), *parts])
        return embeddings, time.perf_counter() - start

    def _batches(self, sequences: list[NDArray[np.int32]]) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """Yield padded ids and lengths, as many sequences at once as a call may read."""
        longest = max((len(sequence) for sequence in sequences), default=0) or 1
        step = max(1, _MAX_CALL_BYTES // (longest * self.config.embedding_dim * np.dtype(np.float32).itemsize))
        for first in range(0, len(sequences), step):
            batch = sequences[first : first + step]
            ids = np.full((len(batch), longest), self.config.vocab_size, np.int32)
            for row, sequence in zip(ids, batch, strict=True):
                row[: len(sequence)] = sequence
            yield ids, np.array([[max(len(sequence), 1)] for sequence in batch], np.float32)

    def _means(self, ids: NDArray[np.int32], lengths: NDArray[np.float32], table: Tensor) -> NDArray[np.float32]:
        rows = self._client.op("embedding", table, self._client.tensor(ids))
        means = self._client.op("sum", rows, dim=1) / lengths
        return self._client.op("normalize", means, dim=1).numpy()


def cluster_code_snippets(
    token_sequences: Sequence[ArrayLike],
    sequence_lengths: Sequence[int] | NDArray[np.integer] | None,
    num_clusters: int,
    *,
    embedder: CUDAEmbeddingGenerator | None = None,
    client: Client | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Embed sequences of token ids and cluster them by k-means.

    Args:
        token_sequences: Lists of token ids, or rows of a padded array.
        sequence_lengths: Number of tokens of each sequence that count; None means all.
        num_clusters: Number of clusters, at most the number of sequences.
        embedder: The table. By default a random one of 256 dimensions for all ids that occur.
        client: A client of the daemon, if there is no embedder.

    Returns:
        `cluster_ids`, int32 [sequences], and `centers`, float32 [num_clusters, embedding_dim].

    Raises:
        RuntimeError: The sequences cannot be embedded.
        ValueError: There are fewer sequences than clusters, or another number of lengths.
    """
    sequences = [np.asarray(sequence) for sequence in token_sequences]
    if sequence_lengths is not None:
        if len(sequence_lengths) != len(sequences):
            raise ValueError(f"sequence_lengths: expected {len(sequences)}, got {len(sequence_lengths)}")
        sequences = [sequence[:length] for sequence, length in zip(sequences, sequence_lengths, strict=True)]
    if embedder is not None:
        return _clusters(sequences, num_clusters, embedder)
    longest = max((len(sequence) for sequence in sequences), default=0)
    vocab_size = 1 + max((int(sequence.max()) for sequence in sequences if sequence.size), default=0)
    with CUDAEmbeddingGenerator(vocab_size, _CLUSTER_DIM, max(longest, 1), client=client) as temporary:
        return _clusters(sequences, num_clusters, temporary)


def _clusters(
    sequences: Sequence[ArrayLike], count: int, embedder: CUDAEmbeddingGenerator
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    result = embedder.encode(sequences, return_metrics=False)
    if not result.success:
        raise RuntimeError(result.error)
    clusters = embedder._client.cluster(result.embeddings, count)
    return clusters.assignments, clusters.centers
