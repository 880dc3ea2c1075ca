# Generated from _aio_similarity.py by generate.py; do not edit.
"""Similarity search, clustering and collections of the blocking client."""

from __future__ import annotations

import uuid

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _points, _similar
from ._blocking_call import Caller
from ._blocking_collection import Collection
from ._choices import Metric, Storage
from ._errors import MessageTooLargeError
from ._results import Clusters, CollectionInfo, Similar
from ._tensor import to_rows
from ._timeout import left


class SimilarityCalls:
    """The calls of the blocking client that search and cluster rows, and make collections."""

    _caller: Caller

    def find_similar(
        self,
        queries: ArrayLike,
        corpus: ArrayLike,
        k: int,
        *,
        metric: Metric = "cosine",
        threshold: float | None = None,
        timeout: float | None = None,
    ) -> Similar:
        """Find the k nearest rows of a corpus for each query, exactly.

        Args:
            queries: float32 [queries, dimensions].
            corpus: float32 [rows, dimensions].
            k: Rows to return per query, at most the number of rows of the corpus.
            metric: "cosine", "dot" or "squared_l2".
            threshold: Omit rows that score worse.
            timeout: Seconds for the whole call, retries included.

        Returns:
            The indices and scores of the rows, [queries, k], best first.
        """
        split = _similar.find_similar(queries, corpus, k, metric, threshold, self._caller.settings)
        return self._caller.run_split(split, timeout)

    def cluster(
        self,
        source: ArrayLike | Collection,
        clusters: int,
        *,
        max_iterations: int = 0,
        tolerance: float | None = None,
        n_init: int = 1,
        spherical: bool = False,
        seed: int = 0,
        timeout: float | None = None,
    ) -> Clusters:
        """Cluster rows, or all points of a collection, by k-means.

        Rows that exceed `max_message_bytes` are uploaded to a temporary collection.

        Args:
            source: float32 [rows, dimensions], or a collection.
            clusters: Number of clusters, at most the number of rows.
            max_iterations: Maximum Lloyd iterations; 0 means the daemon's default.
            tolerance: Stop when the squared movement of the centers falls below this fraction of the data's variance.
            n_init: Number of k-means++ initialisations; the result with the lowest inertia is returned.
            spherical: Whether to normalise rows and centers (spherical k-means).
            seed: Seed of the initialisations.
            timeout: Seconds for the whole call, retries included.

        Returns:
            The centers, float32 [clusters, dimensions], and the cluster of each row.
        """
        means = _similar.KMeans(clusters, max_iterations, tolerance, n_init, spherical, seed)
        if isinstance(source, Collection):
            return self._caller.run(means.collection(source.name), timeout)
        rows = to_rows(source, "source")
        deadline = self._caller.settings.deadline(timeout)
        inline = means.rows(rows, self._caller.settings)
        if inline is not None:
            try:
                return self._caller.until(inline, deadline)
            except MessageTooLargeError:
                if len(rows) < 2:
                    raise
        return self._cluster_resident(rows, means, deadline)

    def _cluster_resident(self, rows: NDArray[np.float32], means: _similar.KMeans, deadline: float) -> Clusters:
        name = f"cluster-{uuid.uuid4().hex}"
        collection = self.create_collection(name, dimensions=rows.shape[1], metric="squared_l2", storage="f32")
        try:
            collection.upsert(np.arange(len(rows)), vectors=rows, timeout=left(deadline))
            return _similar.in_order(self._caller.until(means.collection(name), deadline))
        finally:
            collection.delete()

    def collection(self, name: str) -> Collection:
        """Return a handle to a collection, without a call to the daemon."""
        return Collection(self._caller, name)

    def collections(self, *, timeout: float | None = None) -> list[CollectionInfo]:
        """Return all collections, sorted by name."""
        return self._caller.run(_points.list_collections(), timeout)

    def create_collection(
        self,
        name: str,
        *,
        dimensions: int = 0,
        metric: Metric = "cosine",
        storage: Storage = "",
        model: str = "",
        document_prompt_name: str = "",
        document_prompt: str | None = None,
        query_prompt_name: str = "",
        query_prompt: str | None = None,
        text_field: str = "",
        durable: bool | None = None,
        timeout: float | None = None,
    ) -> Collection:
        """Create a collection.

        Args:
            name: Name of the collection: letters, digits and `._-`, starting with a letter or digit.
            dimensions: Dimensions of its vectors; 0 means the model's.
            metric: "cosine", "dot" or "squared_l2".
            storage: Element type of the copy that a GPU scans: "f32", "f16", "bf16" or "i8". Results are exact for all.
            model: Model that embeds its texts; empty for vectors only.
            document_prompt_name: Name of the model's prompt for the texts of points. Default: "document", "passage",
                "corpus" or "search_document", the first of these that the model has, or else its default prompt.
            document_prompt: That prompt itself, instead of its name; "" means none.
            query_prompt_name: Name of the model's prompt for the texts of queries. Default: "query" or "search_query".
            query_prompt: That prompt itself, instead of its name; "" means none.
            text_field: Payload field to index for hybrid search.
            durable: Whether acknowledged writes survive a crash. None means they do if the daemon has a data folder.
            timeout: Seconds for the whole call, retries included.

        Returns:
            A handle to the collection.

        Raises:
            AlreadyExistsError: The name is taken.
            NotFoundError: The model is not loaded.
        """
        prompts = _points.Prompts(document_prompt_name, document_prompt, query_prompt_name, query_prompt)
        operation = _points.create(name, dimensions, metric, storage, model, prompts, text_field, durable)
        self._caller.run(operation, timeout)
        return Collection(self._caller, name)

    def restore_collection(self, url: str, name: str = "", *, timeout: float | None = None) -> Collection:
        """Create a collection from the snapshot at a URL. An empty name means that of the original collection."""
        return Collection(self._caller, self._caller.run(_points.restore(url, name), timeout))
