"""The asyncio client: `accelerd.Client` with coroutine methods.

from accelerd.aio import AsyncClient

async with AsyncClient("localhost:7433") as client:
    vectors = await client.embed(["parse a date"])
"""

from __future__ import annotations

import ast
import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _device, _embed, _parse, _points, _similar
from ._aio_call import AsyncCaller as AsyncCaller
from ._aio_call import Batches as Batches
from ._aio_call import numbered
from ._aio_kernel import AsyncCompiledKernel as AsyncCompiledKernel
from ._aio_kernel import AsyncKernelCalls
from ._aio_tensor import AsyncGraph as AsyncGraph
from ._aio_tensor import AsyncTensor as AsyncTensor
from ._aio_tensor import AsyncTensorCalls
from ._aio_verify import AsyncVerifyCalls
from ._call import (
    DEFAULT_ATTEMPTS,
    DEFAULT_MESSAGE_BYTES,
    DEFAULT_TIMEOUT,
    Settings,
)
from ._credentials import Tls
from ._embed import EmbedOptions, EmbedOutcome, Quantized, Tokens
from ._errors import AccelerdError, MessageTooLargeError, malformed
from ._parse import Mode, Parsed, ParseOutcome, Source
from ._payload import Id, Payloads
from ._points import Hit, Hits, Point, Points, SearchOptions, UpsertStep
from ._results import Clusters, CollectionInfo, Device, Model, Ranked, Similar, Snapshot, Stats
from ._tensor import to_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.


class AsyncClient(AsyncTensorCalls, AsyncKernelCalls, AsyncVerifyCalls):
    """Client of a daemon for one event loop, with the methods of `accelerd.Client`.

    The `timeout` of a call is in seconds, retries included; None means the client's default.
    """

    def __init__(
        self,
        target: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        attempts: int = DEFAULT_ATTEMPTS,
        max_message_bytes: int = DEFAULT_MESSAGE_BYTES,
        connections: int = 1,
        tls: Tls | bool | None = None,
        token: str | None = None,
        allow_plaintext_token: bool = False,
    ) -> None:
        """Create a client. It connects on the first call.

        Args:
            target: `host:port`, `https://host:port` or `unix:///path`. Defaults to the environment variable
                ACCELERD_SERVER, then to localhost:7433.
            timeout: Default timeout of a call in seconds, retries included.
            attempts: Maximum attempts per call.
            max_message_bytes: Maximum size of a request; larger calls are split. Must not exceed the daemon's setting
                `server.max_message_bytes`.
            connections: Number of connections, used round-robin. The daemon serves each connection on one thread.
            tls: A `Tls`, or True for its defaults. A target with https:// has TLS by default, with the certificate
                authorities of the file in the environment variable ACCELERD_TLS_CA if it is set.
            token: Bearer token of every call. Defaults to the environment variable ACCELERD_TOKEN; empty means none. It
                is sent only over TLS, to a Unix socket or to this machine.
            allow_plaintext_token: Whether to send the token in plaintext to other machines, for networks that encrypt
                by other means, such as a service mesh.

        Raises:
            ValueError: The settings are invalid, or would send the token in plaintext.
            OSError: A file of `tls` cannot be read.
        """
        settings = Settings.of(
            target, timeout, attempts, max_message_bytes, connections, tls, token, allow_plaintext_token
        )
        self._caller = AsyncCaller(settings)

    @property
    def target(self) -> str:
        """Address of the daemon."""
        return self._caller.settings.target

    def __repr__(self) -> str:
        return f"AsyncClient({self.target!r})"

    async def close(self) -> None:
        """Close the connections."""
        await self._caller.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @overload
    async def embed(
        self,
        texts: Sequence[str],
        *,
        output: Literal["f32", "bf16"] = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.float32]: ...

    @overload
    async def embed(
        self,
        texts: Sequence[str],
        *,
        output: Literal["f16"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.float16]: ...

    @overload
    async def embed(
        self,
        texts: Sequence[str],
        *,
        output: Literal["binary"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.uint8]: ...

    @overload
    async def embed(
        self,
        texts: Sequence[str],
        *,
        output: Literal["int8"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Quantized: ...

    @overload
    async def embed(
        self,
        texts: Sequence[str],
        *,
        output: _embed.Output,
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any] | Quantized: ...

    async def embed(
        self,
        texts: Sequence[str],
        *,
        output: _embed.Output = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any] | Quantized:
        """Embed texts.

        Args:
            texts: The texts.
            output: Element type of the vectors: "f32", "f16", "bf16" (returned as float32), "int8" (a `Quantized`) or
                "binary" (uint8, one bit per dimension).
            timeout: Seconds for the whole call, retries included.
            **options: See `EmbedOptions`. The defaults are the model's.

        Returns:
            One vector per text, [texts, dimensions]; one per span if `spans` is given.
        """
        split = _embed.embed(texts, output, options, self._caller.settings)
        vectors: NDArray[Any] | Quantized = await self._caller.run_split(split, timeout)
        return vectors

    @overload
    async def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: Literal["f32", "bf16"] = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.float32]: ...

    @overload
    async def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: Literal["f16"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.float16]: ...

    @overload
    async def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: Literal["binary"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.uint8]: ...

    @overload
    async def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: Literal["int8"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Quantized: ...

    @overload
    async def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: _embed.Output,
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any] | Quantized: ...

    async def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: _embed.Output = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any] | Quantized:
        """Embed token ids: those of `tokenize`, or a list of lists. Takes the options of `embed`."""
        split = _embed.embed_tokens(tokens, output, options, self._caller.settings)
        vectors: NDArray[Any] | Quantized = await self._caller.run_split(split, timeout)
        return vectors

    @overload
    def embed_stream(
        self,
        batches: Batches[Sequence[str]],
        *,
        output: Literal["f32", "bf16"] = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> AsyncIterator[EmbedOutcome[NDArray[np.float32]]]: ...

    @overload
    def embed_stream(
        self,
        batches: Batches[Sequence[str]],
        *,
        output: Literal["f16"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> AsyncIterator[EmbedOutcome[NDArray[np.float16]]]: ...

    @overload
    def embed_stream(
        self,
        batches: Batches[Sequence[str]],
        *,
        output: Literal["binary"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> AsyncIterator[EmbedOutcome[NDArray[np.uint8]]]: ...

    @overload
    def embed_stream(
        self,
        batches: Batches[Sequence[str]],
        *,
        output: Literal["int8"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> AsyncIterator[EmbedOutcome[Quantized]]: ...

    @overload
    def embed_stream(
        self,
        batches: Batches[Sequence[str]],
        *,
        output: _embed.Output,
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> AsyncIterator[EmbedOutcome[NDArray[Any] | Quantized]]: ...

    async def embed_stream(
        self,
        batches: Batches[Sequence[str]],
        *,
        output: _embed.Output = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> AsyncIterator[EmbedOutcome[Any]]:
        """Embed batches of texts over one stream. Takes the options of `embed`.

        A failed batch does not end the stream. Nothing is retried, and without a timeout there is no deadline.

        Yields:
            The outcome of each batch in the order of completion.
        """
        encode = _embed.stream_encoder(output, options)
        requests = (encode(at, texts) async for at, texts in numbered(batches))
        async for response in self._caller.stream(_embed.EMBED_STREAM, requests, timeout):
            yield _embed.outcome(response)

    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        model: str,
        top_n: int = 0,
        raw_scores: bool = False,
        max_tokens: int = 0,
        timeout: float | None = None,
    ) -> list[Ranked]:
        """Rank documents by their relevance to a query.

        Args:
            query: The query.
            documents: The documents.
            model: Name or alias of a loaded cross-encoder.
            top_n: Maximum number of results; 0 means all documents.
            raw_scores: Whether to return the classifier's logits instead of activated scores.
            max_tokens: Maximum tokens of the query and a document together; 0 means the model's limit.
            timeout: Seconds for the whole call, retries included.

        Returns:
            The documents' indices and scores, best first.
        """
        operation = _embed.rerank(query, documents, model, top_n, raw_scores, max_tokens)
        return await self._caller.run(operation, timeout)

    async def load_model(
        self,
        name: str,
        path: str,
        *,
        aliases: Sequence[str] = (),
        precision: str = "",
        timeout: float | None = None,
    ) -> Model:
        """Load a model.

        Args:
            name: Its name in calls.
            path: A folder or file on the daemon's machine, or `hf://owner/name[@revision]` for a model of its hub.
            aliases: Other names in calls.
            precision: "bf16", "f16" or "f32"; empty means the daemon's default.
            timeout: Seconds for the whole call, retries included.
        """
        return await self._caller.run(_embed.load_model(name, path, aliases, precision), timeout)

    async def unload_model(self, name: str, *, timeout: float | None = None) -> str:
        """Unload a model, by name or alias. Returns its name."""
        return await self._caller.run(_embed.unload_model(name), timeout)

    async def tokenize(self, texts: Sequence[str], *, model: str = "", timeout: float | None = None) -> Tokens:
        """Convert texts to the token ids of a model."""
        return await self._caller.run(_embed.tokenize(texts, model), timeout)

    async def models(self, *, timeout: float | None = None) -> list[Model]:
        """Return the loaded models, sorted by name."""
        return await self._caller.run(_embed.list_models(), timeout)

    async def find_similar(
        self,
        queries: ArrayLike,
        corpus: ArrayLike,
        k: int,
        *,
        metric: str = "cosine",
        threshold: float | None = None,
        timeout: float | None = None,
    ) -> Similar:
        """Find the k nearest rows of a corpus for each query, exactly.

        Args:
            queries: float32 [queries, dimensions].
            corpus: float32 [rows, dimensions].
            k: Rows to return per query.
            metric: "cosine", "dot" or "squared_l2".
            threshold: Omit rows that score worse.
            timeout: Seconds for the whole call, retries included.
        """
        split = _similar.find_similar(queries, corpus, k, metric, threshold, self._caller.settings)
        return await self._caller.run_split(split, timeout)

    async def cluster(
        self,
        source: ArrayLike | AsyncCollection,
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
            clusters: Number of clusters.
            max_iterations: Maximum Lloyd iterations; 0 means the daemon's default.
            tolerance: Stop when the squared movement of the centers falls below this fraction of the data's variance.
            n_init: Number of k-means++ initialisations; the result with the lowest inertia is returned.
            spherical: Whether to normalise rows and centers (spherical k-means).
            seed: Seed of the initialisations.
            timeout: Seconds for the whole call, retries included.
        """
        means = _similar.KMeans(clusters, max_iterations, tolerance, n_init, spherical, seed)
        if isinstance(source, AsyncCollection):
            return await self._caller.run(means.collection(source.name), timeout)
        rows = to_rows(source, "source")
        deadline = self._caller.settings.deadline(timeout)
        inline = means.rows(rows, self._caller.settings)
        if inline is not None:
            try:
                return await self._caller.until(inline, deadline)
            except MessageTooLargeError:
                if len(rows) < 2:
                    raise
        return await self._cluster_resident(rows, means, deadline)

    async def _cluster_resident(self, rows: NDArray[np.float32], means: _similar.KMeans, deadline: float) -> Clusters:
        name = f"cluster-{uuid.uuid4().hex}"
        collection = await self.create_collection(name, dimensions=rows.shape[1], metric="squared_l2", storage="f32")
        try:
            await collection.upsert(np.arange(len(rows)), vectors=rows, timeout=max(deadline - time.monotonic(), 0.0))
            return _similar.in_order(await self._caller.until(means.collection(name), deadline))
        finally:
            await collection.delete()

    @overload
    async def parse(
        self,
        sources: Iterable[Source],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["exec"] = "exec",
        timeout: float | None = None,
    ) -> list[Parsed[ast.Module]]: ...

    @overload
    async def parse(
        self,
        sources: Iterable[Source],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["eval"],
        timeout: float | None = None,
    ) -> list[Parsed[ast.Expression]]: ...

    @overload
    async def parse(
        self,
        sources: Iterable[Source],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["single"],
        timeout: float | None = None,
    ) -> list[Parsed[ast.Interactive]]: ...

    @overload
    async def parse(
        self,
        sources: Iterable[Source],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Mode,
        timeout: float | None = None,
    ) -> list[Parsed[ast.mod]]: ...

    async def parse(
        self,
        sources: Iterable[Source],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Mode = "exec",
        timeout: float | None = None,
    ) -> list[Parsed[Any]]:
        """Parse Python sources.

        A source with a syntax error has a `diagnostic`; the call succeeds.

        Args:
            sources: Each is text (`str`), or the bytes of a file, which are decoded by their byte order mark or
                encoding cookie.
            outputs: Any of "tree", "tokens", "comments", "outline" and "line_starts".
            feature_version: Minor version of the grammar, as in `ast.parse(feature_version=(3, n))`. Defaults to the
                running Python's, or the closest one that the daemon supports; 0 means the daemon's newest.
            mode: "exec", "eval" or "single", as in `ast.parse`.
            timeout: Seconds for the whole call, retries included.

        Returns:
            One result per source, in order.
        """
        options = _parse.ParseOptions(outputs, feature_version, mode)
        return await self._caller.run_split(_parse.parse(sources, options, self._caller.settings), timeout)

    @overload
    def parse_stream(
        self,
        batches: Batches[Iterable[Source]],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["exec"] = "exec",
        timeout: float | None = None,
    ) -> AsyncIterator[ParseOutcome[ast.Module]]: ...

    @overload
    def parse_stream(
        self,
        batches: Batches[Iterable[Source]],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["eval"],
        timeout: float | None = None,
    ) -> AsyncIterator[ParseOutcome[ast.Expression]]: ...

    @overload
    def parse_stream(
        self,
        batches: Batches[Iterable[Source]],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["single"],
        timeout: float | None = None,
    ) -> AsyncIterator[ParseOutcome[ast.Interactive]]: ...

    @overload
    def parse_stream(
        self,
        batches: Batches[Iterable[Source]],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Mode,
        timeout: float | None = None,
    ) -> AsyncIterator[ParseOutcome[ast.mod]]: ...

    async def parse_stream(
        self,
        batches: Batches[Iterable[Source]],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Mode = "exec",
        timeout: float | None = None,
    ) -> AsyncIterator[ParseOutcome[Any]]:
        """Parse batches of sources over one stream. Takes the arguments of `parse`.

        The daemon parses the next batches while the caller builds the trees of the last one. A failed batch does not
        end the stream. Nothing is retried, and without a timeout there is no deadline.

        Yields:
            The outcome of each batch in the order of completion.
        """
        stream = _parse.ParseStream(_parse.ParseOptions(outputs, feature_version, mode))
        requests = (stream.request(at, sources) async for at, sources in numbered(batches))
        async for response in self._caller.stream(_parse.PARSE_STREAM, requests, timeout):
            yield stream.outcome(response)

    def collection(self, name: str) -> AsyncCollection:
        """Return a handle to a collection, without a call to the daemon."""
        return AsyncCollection(self._caller, name)

    async def collections(self, *, timeout: float | None = None) -> list[CollectionInfo]:
        """Return all collections, sorted by name."""
        return await self._caller.run(_points.list_collections(), timeout)

    async def create_collection(
        self,
        name: str,
        *,
        dimensions: int = 0,
        metric: str = "cosine",
        storage: str = "",
        model: str = "",
        text_field: str = "",
        durable: bool = False,
        timeout: float | None = None,
    ) -> AsyncCollection:
        """Create a collection.

        Args:
            name: Its name: letters, digits and `._-`, starting with a letter or digit.
            dimensions: Dimensions of its vectors; 0 means the model's.
            metric: "cosine", "dot" or "squared_l2".
            storage: Element type of the copy that a GPU scans: "f32", "f16", "bf16" or "i8". Results are exact for all.
            model: Model that embeds its texts; empty for vectors only.
            text_field: Payload field to index for hybrid search.
            durable: Whether acknowledged writes survive a crash.
            timeout: Seconds for the whole call, retries included.
        """
        operation = _points.create(name, dimensions, metric, storage, model, text_field, durable)
        await self._caller.run(operation, timeout)
        return AsyncCollection(self._caller, name)

    async def restore_collection(self, url: str, name: str = "", *, timeout: float | None = None) -> AsyncCollection:
        """Create a collection from a snapshot. An empty name means the original's."""
        return AsyncCollection(self._caller, await self._caller.run(_points.restore(url, name), timeout))

    async def devices(self, *, timeout: float | None = None) -> list[Device]:
        """Return the daemon's devices: GPUs first, then the CPU worker pool."""
        return await self._caller.run(_device.list_devices(), timeout)

    async def stats(self, *, timeout: float | None = None) -> Stats:
        """Return statistics of queues, batches, memory pools and kernels since the daemon's start."""
        return await self._caller.run(_device.get_stats(), timeout)


class AsyncCollection:
    """Handle to a collection, which need not exist.

    Filters are dicts of payload field to condition: a value, a list of values, or `slice(low, high)` for
    `low <= x < high`.

    The `timeout` of a call is in seconds, retries included; None means the client's default.
    """

    def __init__(self, caller: AsyncCaller, name: str) -> None:
        self._caller = caller
        self.name = name

    def __repr__(self) -> str:
        return f"AsyncCollection({self.name!r})"

    async def describe(self, *, timeout: float | None = None) -> CollectionInfo:
        """Return the collection's configuration and size."""
        return await self._caller.run(_points.describe(self.name), timeout)

    async def delete(self, *, timeout: float | None = None) -> None:
        """Delete the collection, its log and its local snapshots."""
        await self._caller.run(_points.delete(self.name), timeout)

    async def upsert(
        self,
        ids: Iterable[Id] | NDArray[Any],
        *,
        texts: Sequence[str] | None = None,
        vectors: ArrayLike | None = None,
        payloads: Payloads | None = None,
        timeout: float | None = None,
    ) -> int:
        """Insert points, and replace those whose ids exist.

        The write is atomic if it fits into one message (`max_message_bytes`). Otherwise it is split into parts, written
        in order, of which each is atomic; after a failure the earlier parts stay.

        Args:
            ids: One id per point: ints, or UUIDs.
            texts: Texts to embed with the collection's model.
            vectors: float32 [points, dimensions].
            payloads: A list of dicts, one per point; or a dict of columns, which is faster: for each field a list or an
                array with a value per point, None where a point has none.
            timeout: Seconds for the whole call, retries included.

        Returns:
            The number of new points.
        """
        upsert = _points.Upsert(self.name, ids, texts, vectors, payloads, self._caller.settings)
        deadline = self._caller.settings.deadline(timeout)
        whole = upsert.one()
        if whole is not None:
            try:
                return await self._caller.until(whole, deadline)
            except MessageTooLargeError:
                if upsert.whole.halves() is None:
                    raise
        return await self._upsert_in_parts(_points.SplitUpsert(upsert, self._caller.settings), deadline)

    async def _upsert_in_parts(self, split: _points.SplitUpsert, deadline: float) -> int:
        while not split.is_done:
            try:
                left = max(deadline - time.monotonic(), 0.0)
                async for response in self._caller.stream(_points.UPSERT_STREAM, split.requests(), left):
                    split.on_response(response)
                if not split.is_done:
                    raise malformed("the stream ended before its last step")
            except AccelerdError as problem:
                wait = split.on_error(problem)
                if time.monotonic() + wait >= deadline:
                    raise
                await asyncio.sleep(wait)
        return split.inserted

    async def upsert_many(self, steps: Batches[UpsertStep], *, timeout: float | None = None) -> AsyncIterator[int]:
        """Upsert in bulk over one stream.

        Steps are consumed as they are sent and may have any size: each is split into messages of a few MiB, of which
        each is atomic. Nothing is retried, and without a timeout there is no deadline.

        Args:
            steps: Dicts with the arguments of `upsert`.
            timeout: Seconds for the whole stream.

        Yields:
            The number of new points of each step.
        """
        bulk = _points.BulkUpsert(self.name, self._caller.settings)
        requests = (message async for _, step in numbered(steps) for message in bulk.messages(step))
        async for response in self._caller.stream(_points.UPSERT_STREAM, requests, timeout):
            inserted = bulk.on_response(response)
            if inserted is not None:
                yield inserted

    async def search(self, *, timeout: float | None = None, **options: Unpack[SearchOptions]) -> list[list[Hit]]:
        """Find the nearest points of each query, exactly.

        Args:
            timeout: Seconds for the whole call, retries included.
            **options: The queries and `SearchOptions`:

                texts, vectors or ids: The queries. Results of stored points, given by id, include those points.
                k: Hits per query, after the first `offset`. Default 10.
                threshold: Omit hits that score worse.
                where, where_not: Conditions that points must and must not meet.
                payload: Whether to return payloads. Default True.
                hybrid: Whether to combine full-text search with vector search. Requires `texts` and a `text_field`.
                fusion: "relative_score" (default) or "reciprocal_rank".
                text_weight: Weight of the text ranking in a hybrid search, from 0 to 1. Default 0.5.

        Returns:
            The hits of each query, best first.
        """
        return await self._caller.run(_points.search(self.name, options), timeout)

    async def search_columns(self, *, timeout: float | None = None, **options: Unpack[SearchOptions]) -> Hits:
        """Search like `search` and return columns, which are cheaper for many hits."""
        return await self._caller.run(_points.search_columns(self.name, options), timeout)

    async def get(
        self, ids: Iterable[Id] | NDArray[Any], *, vectors: bool = False, timeout: float | None = None
    ) -> list[Point]:
        """Return points by id. Unknown ids are omitted."""
        return await self._caller.run(_points.get_points(self.name, ids, vectors), timeout)

    async def scroll(
        self,
        *,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
        page_size: int = 1000,
        payload: bool = True,
        vectors: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[Point]:
        """Iterate over all points that match, in ascending order of id. `timeout` applies to each page."""
        scroll = _points.Scroll(self.name, where, where_not, page_size, payload, vectors)
        while not scroll.is_done:
            for point in await self._caller.run(scroll.next_points(), timeout):
                yield point

    async def scroll_columns(
        self,
        *,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
        page_size: int = 1000,
        payload: bool = True,
        vectors: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[Points]:
        """Iterate like `scroll`, over pages of columns."""
        scroll = _points.Scroll(self.name, where, where_not, page_size, payload, vectors)
        while not scroll.is_done:
            yield await self._caller.run(scroll.next_columns(), timeout)

    async def count(
        self,
        *,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> int:
        """Return the exact number of points that match."""
        return await self._caller.run(_points.count(self.name, where, where_not), timeout)

    async def delete_points(
        self,
        ids: Iterable[Id] | NDArray[Any] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> int:
        """Delete the points that match all conditions. Returns their number."""
        return await self._caller.run(_points.delete_points(self.name, ids, where, where_not), timeout)

    async def snapshot(self, url: str = "", *, timeout: float | None = None) -> Snapshot:
        """Write a versioned snapshot to an object store, by default the configured one."""
        return await self._caller.run(_points.create_snapshot(self.name, url), timeout)
