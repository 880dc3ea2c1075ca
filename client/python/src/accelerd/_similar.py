"""Exact nearest neighbours and k-means of inline rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._call import Operation, Part, Settings, SplitOperation
from ._choices import Metric, number
from ._errors import too_large
from ._message import message
from ._methods import SimilarityService
from ._payload import read_ids
from ._proto import similarity_pb2 as pb
from ._results import Clusters, Similar
from ._tensor import encode, to_array, to_rows
from ._wire import Chunk, field, size

# Bytes for the other fields of a message.
_RESERVED = 1024
# An index and a score.
_RESULT_BYTES = 8


class Block:
    """A range of queries against a range of corpus rows."""

    def __init__(self, queries: Part, corpus: Part) -> None:
        self.queries, self.corpus = queries, corpus

    def halves(self) -> tuple[Block, Block] | None:
        """Split the longer side in halves."""
        if len(self.queries) >= len(self.corpus):
            halves = self.queries.halves()
            return halves and (Block(halves[0], self.corpus), Block(halves[1], self.corpus))
        halves = self.corpus.halves()
        return halves and (Block(self.queries, halves[0]), Block(self.queries, halves[1]))


def find_similar(
    queries: ArrayLike, corpus: ArrayLike, k: int, metric: Metric, threshold: float | None, settings: Settings
) -> SplitOperation[Similar]:
    """Find the nearest rows, in several calls if they exceed a message. The results are merged exactly."""
    message(pb.FindSimilarRequest, {"score_threshold": "threshold"}, k=k, score_threshold=threshold)
    asked, rows = to_rows(queries, "queries"), to_rows(corpus, "corpus")
    metric_number = number("metric", pb.Metric, "METRIC", Metric, metric)
    if not len(rows):
        raise ValueError("corpus: expected at least one row, got none")
    blocks = _blocks(asked, rows, k, settings.max_message_bytes - _RESERVED)
    if len(blocks) > 1 and (not 0 < k <= len(rows) or asked.shape[1] != rows.shape[1]):
        raise ValueError(
            f"expected rows of equal length and k from 1 to {len(rows)}, "
            f"got lengths {asked.shape[1]} and {rows.shape[1]} and k {k}"
        )

    def operation(block: Block) -> Operation[Similar]:
        held = rows[block.corpus.start : block.corpus.stop]
        options = message(
            pb.FindSimilarRequest,
            {"score_threshold": "threshold"},
            metric=metric_number,
            # The daemon rejects a k above the rows of the whole corpus.
            k=k if len(held) == len(rows) else min(k, len(held)),
            score_threshold=threshold,
        )
        chunks: list[Chunk] = [
            *field(1, encode(asked[block.queries.start : block.queries.stop])),
            *field(2, encode(held)),
            options.SerializeToString(),
        ]
        return Operation(
            SimilarityService.FIND_SIMILAR,
            b"".join(chunks),
            lambda response: Similar(to_array(response.indices), to_array(response.scores)),
        )

    return SplitOperation(blocks, operation, lambda done: _merged(done, k, is_ascending=metric == "squared_l2"))


def _blocks(queries: NDArray[Any], corpus: NDArray[Any], k: int, limit: int) -> list[Block]:
    row = 4 * max(queries.shape[1], corpus.shape[1], 1)
    if queries.nbytes + corpus.nbytes <= limit and _RESULT_BYTES * len(queries) * k <= limit:
        return [Block(Part(0, len(queries)), Part(0, len(corpus)))]
    if 2 * row > limit:
        raise too_large("a query and a row of the corpus", 2 * row, limit)
    # Queries take at most half of a message.
    query_rows = max(1, min(len(queries), limit // 2 // row, limit // (_RESULT_BYTES * max(k, 1))))
    corpus_rows = max(1, (limit - query_rows * row) // row)
    return [
        Block(Part(query, min(query + query_rows, len(queries))), Part(at, min(at + corpus_rows, len(corpus))))
        for query in range(0, len(queries), query_rows)
        for at in range(0, len(corpus), corpus_rows)
    ]


def _merged(done: list[tuple[Any, Any]], k: int, *, is_ascending: bool) -> Similar:
    if not done:
        return Similar(np.zeros((0, k), np.int32), np.zeros((0, k), np.float32))
    if len(done) == 1:
        result: Similar = done[0][1]
        return result
    blocks = sorted(done, key=lambda pair: pair[0].corpus.start)
    # Blocks may have been halved differently, so queries are merged between all bounds.
    bounds = sorted({bound for block, _ in done for bound in (block.queries.start, block.queries.stop)})
    merged = [_merge_corpus(list(_covering(blocks, *span)), k, is_ascending) for span in pairwise(bounds)]
    return Similar(np.concatenate([one.indices for one in merged]), np.concatenate([one.scores for one in merged]))


def _covering(blocks: list[tuple[Block, Similar]], start: int, stop: int) -> Iterator[tuple[Part, Similar]]:
    """Iterate over the results of queries `start` to `stop` by part of the corpus."""
    for block, similar in blocks:
        first = block.queries.start
        if first <= start and stop <= block.queries.stop:
            rows = slice(start - first, stop - first)
            yield block.corpus, Similar(similar.indices[rows], similar.scores[rows])


def _merge_corpus(parts: list[tuple[Part, Similar]], k: int, is_ascending: bool) -> Similar:
    """Merge the results of parts of the corpus. Ties go to the lower row, as in one call."""
    indices = np.concatenate([np.where(one.indices < 0, -1, one.indices + part.start) for part, one in parts], axis=1)
    scores = np.concatenate([one.scores for _, one in parts], axis=1)
    # Missing rows have the score NaN, which sorts last.
    order = np.argsort(scores if is_ascending else -scores, axis=1, kind="stable")[:, :k]
    return Similar(np.take_along_axis(indices, order, 1).astype(np.int32), np.take_along_axis(scores, order, 1))


class KMeans:
    """A k-means call."""

    def __init__(
        self,
        clusters: int,
        max_iterations: int,
        tolerance: float | None,
        n_init: int,
        spherical: bool,
        seed: int,
    ) -> None:
        names = {"cluster_count": "clusters", "init_count": "n_init"}
        self._message = message(
            pb.ClusterRequest,
            names,
            cluster_count=clusters,
            max_iterations=max_iterations,
            tolerance=tolerance,
            init_count=n_init,
            spherical=spherical,
            seed=seed,
        )

    def rows(self, rows: NDArray[np.float32], settings: Settings) -> Operation[Clusters] | None:
        """Return the call for rows; None if they exceed a message."""
        chunks: list[Chunk] = [*field(1, encode(rows)), self._message.SerializeToString()]
        if size(chunks) > settings.max_message_bytes:
            return None
        return Operation(SimilarityService.CLUSTER, b"".join(chunks), _clusters)

    def collection(self, name: str) -> Operation[Clusters]:
        """Return the call for all points of a collection."""
        request = message(pb.ClusterRequest, collection=name)
        request.MergeFrom(self._message)
        return Operation(SimilarityService.CLUSTER, request, _clusters)


def _clusters(response: pb.ClusterResponse) -> Clusters:
    return Clusters(
        to_array(response.centers),
        to_array(response.assignments),
        response.inertia,
        response.iteration_count,
        response.converged,
        read_ids(response.ids),
    )


def in_order(clusters: Clusters) -> Clusters:
    """Reorder the clusters of a collection whose ids are row numbers into the order of the rows."""
    assignments = np.empty_like(clusters.assignments)
    assignments[np.array(clusters.ids, dtype=np.intp)] = clusters.assignments
    return clusters._replace(assignments=assignments, ids=[])
