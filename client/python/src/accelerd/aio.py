"""The asyncio client: the methods of `accelerd.Client`, awaited.

from accelerd.aio import AsyncClient

async with AsyncClient("localhost:7433") as client:
    vectors = await client.embed(["parse a date"])
"""

from __future__ import annotations

import ast
import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

import grpc
import grpc.aio
import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _device, _embed, _parse, _points, _similar, _timing
from ._call import (
    DEFAULT_ATTEMPTS,
    DEFAULT_MESSAGE_BYTES,
    DEFAULT_TIMEOUT,
    Connections,
    Method,
    Operation,
    Settings,
    SplitOperation,
)
from ._embed import EmbedOptions, EmbedOutcome, Quantized, Tokens
from ._errors import AccelerdError, MessageTooLargeError, from_call, malformed
from ._parse import Mode, Parsed, ParseOutcome, Source
from ._payload import Id, Payloads
from ._points import Hit, Hits, Point, Points, SearchOptions, UpsertStep
from ._results import Clusters, CollectionInfo, Device, Model, Ranked, Similar, Snapshot, Stats
from ._tensor import to_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.

T = TypeVar("T")
#: What a stream sends: any iterable, or one that waits for its items.
Batches: TypeAlias = "Iterable[T] | AsyncIterable[T]"


async def numbered(batches: Batches[T]) -> AsyncIterator[tuple[int, T]]:
    """Batches and their numbers, from 0."""
    if isinstance(batches, AsyncIterable):
        at = 0
        async for batch in batches:
            yield at, batch
            at += 1
        return
    for at, batch in enumerate(batches):
        yield at, batch


class AsyncCaller:
    """Makes calls without blocking the event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._connections = Connections(settings, grpc.aio.insecure_channel)

    async def run(self, operation: Operation[T], timeout: float | None) -> T:
        """Makes a call until it is answered, refused for good, or late."""
        return await self.until(operation, self.settings.deadline(timeout))

    async def until(self, operation: Operation[T], deadline: float) -> T:
        """The same, with a deadline by the monotonic clock."""
        method, start = operation.method, time.monotonic()
        for attempt in itertools.count(1):
            left = max(deadline - time.monotonic(), 0.0)
            send = self._connections.unary(method)
            try:
                call = send(operation.request, timeout=left, metadata=_timing.metadata())
                answer = await call
            except grpc.RpcError as failed:
                problem = from_call(failed)
                wait = self.settings.wait(problem, attempt, method.is_idempotent)
                if wait is None or time.monotonic() + wait >= deadline:
                    raise problem from None
                await asyncio.sleep(wait)
            else:
                _timing.record(method.name, time.monotonic() - start, await call.initial_metadata())
                return operation.decode(answer)
        raise AssertionError("unreachable")

    async def run_split(self, split: SplitOperation[T], timeout: float | None) -> T:
        """Makes a call in parts, one after the other."""
        deadline = self.settings.deadline(timeout)
        done: list[tuple[Any, Any]] = []
        for part in split.parts:
            done += await self._run_part(split, part, deadline)
        return split.join(done)

    async def _run_part(self, split: SplitOperation[Any], part: Any, deadline: float) -> list[tuple[Any, Any]]:
        try:
            return [(part, await self.until(split.operation(part), deadline))]
        except MessageTooLargeError:
            halves = part.halves()
            if halves is None:
                raise
        return [done for half in halves for done in await self._run_part(split, half, deadline)]

    async def stream(self, method: Method, requests: Batches[Any], timeout: float | None) -> AsyncIterator[Any]:
        """The answers of a stream; nothing is retried. Ends the call when it is closed."""
        start = time.monotonic()
        outgoing = _Outgoing(requests)
        call = self._connections.stream(method)(outgoing.messages(), timeout=timeout, metadata=_timing.metadata())
        try:
            is_first = True
            async for answer in call:
                if is_first:
                    _timing.record(method.name, time.monotonic() - start, await call.initial_metadata())
                    is_first = False
                yield answer
            # A call whose messages could not be made is cancelled by gRPC, and may just end.
            if outgoing.problem is not None:
                raise outgoing.problem
        except grpc.RpcError as failed:
            raise outgoing.problem or from_call(failed) from None
        except asyncio.CancelledError:
            if outgoing.problem is None:
                raise
            raise outgoing.problem from None
        finally:
            call.cancel()

    async def close(self) -> None:
        """Closes the connections."""
        for channel in self._connections.take():
            await channel.close()


class _Outgoing:
    """The messages of a stream. gRPC takes them in a task of its own, and would hide why one could not be made."""

    def __init__(self, requests: Batches[Any]) -> None:
        self._requests = requests
        self.problem: Exception | None = None

    async def messages(self) -> AsyncIterator[Any]:
        """The messages, one by one."""
        try:
            async for _, message in numbered(self._requests):
                yield message
        except Exception as problem:
            self.problem = problem
            raise


class AsyncClient:
    """One or several connections to a daemon, for one event loop. The methods are those of `accelerd.Client`.

    `timeout` of a call is seconds that it may take, retries included; None is the client's.
    """

    def __init__(
        self,
        target: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        attempts: int = DEFAULT_ATTEMPTS,
        max_message_bytes: int = DEFAULT_MESSAGE_BYTES,
        connections: int = 1,
    ) -> None:
        """Connects when first used.

        target: `host:port` or `unix:///path`; left out, that of the environment variable ACCELERD_SERVER, else
            localhost:7433.
        timeout: seconds a call may take, retries included.
        attempts: how often a call is sent at most.
        max_message_bytes: the largest message that is sent; calls that need more are split. Not above the daemon's own
            `server.max_message_bytes`.
        connections: how many there are; each call goes over the next. The daemon serves each connection on one thread.
        """
        self._caller = AsyncCaller(Settings.of(target, timeout, attempts, max_message_bytes, connections))

    @property
    def target(self) -> str:
        """Where the daemon is."""
        return self._caller.settings.target

    def __repr__(self) -> str:
        return f"AsyncClient({self.target!r})"

    def __getstate__(self) -> Settings:
        return self._caller.settings

    def __setstate__(self, settings: Settings) -> None:
        self._caller = AsyncCaller(settings)

    async def close(self) -> None:
        """Closes the connections."""
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
        """Vectors of texts: float32 [texts, dimensions] where the options (`EmbedOptions`) say nothing else.

        output: f32, f16, bf16 (as float32), int8 (a `Quantized`) or binary (uint8, a bit a dimension).
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
        """Vectors of token ids, as `tokenize` makes them or as a list of lists; options as for `embed`."""
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
        """Embeds a corpus, batch after batch; options as for `embed`.

        Yields what became of each batch as it finishes, perhaps before an earlier one. One that fails does not end the
        stream. Nothing is retried; without a timeout there is no deadline.
        """
        encode = _embed.stream_encoder(output, options)
        requests = (encode(at, texts) async for at, texts in numbered(batches))
        async for answer in self._caller.stream(_embed.EMBED_STREAM, requests, timeout):
            yield _embed.outcome(answer)

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
        """Documents in the order in which they answer a query, best first, by a loaded cross-encoder.

        top_n: most results; 0 is all documents.
        raw_scores: scores as the model's classifier gives them, unbounded.
        max_tokens: most tokens of the query and a document together; 0 is the model's own limit.
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
        """Loads a model from a folder or file on the daemon's machine, or from its hub by `hf://owner/name[@revision]`.

        precision: bf16, f16 or f32.
        """
        return await self._caller.run(_embed.load_model(name, path, aliases, precision), timeout)

    async def unload_model(self, name: str, *, timeout: float | None = None) -> str:
        """Forgets a model; its name."""
        return await self._caller.run(_embed.unload_model(name), timeout)

    async def tokenize(self, texts: Sequence[str], *, model: str = "", timeout: float | None = None) -> Tokens:
        """The token ids a model would see."""
        return await self._caller.run(_embed.tokenize(texts, model), timeout)

    async def models(self, *, timeout: float | None = None) -> list[Model]:
        """The models that are loaded."""
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
        """The k rows of a corpus nearest to each query, exactly. Metrics: cosine, dot, squared_l2."""
        split = _similar.find_similar(queries, corpus, k, metric, threshold, self._caller.settings)
        return await self._caller.run_split(split, timeout)

    async def cluster(
        self,
        source: ArrayLike | AsyncCollection,
        clusters: int,
        *,
        max_iterations: int = 0,
        tolerance: float | None = None,
        starts: int = 1,
        spherical: bool = False,
        seed: int = 0,
        timeout: float | None = None,
    ) -> Clusters:
        """k-means over rows or over all points of a collection.

        Rows beyond `max_message_bytes` are clustered in a collection of their own, which is dropped afterwards.
        """
        means = _similar.KMeans(clusters, max_iterations, tolerance, starts, spherical, seed)
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
        """Parses Python: for each source its verdict and what was asked for.

        A source that is not Python has a `diagnostic`; the call succeeds.

        sources: each is decoded text (str), or the bytes of a file, decoded as its byte order mark or cookie says.
        outputs: any of tree, tokens, comments, outline, line_starts.
        feature_version: minor version of the grammar, as in `ast.parse(feature_version=(3, n))`. Left out, that of the
            running Python, as far as the daemon knows it; 0 is the newest that the daemon knows.
        mode: exec, eval or single, as of `ast.parse`.
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
        """Parses batch after batch; arguments as of `parse`.

        The daemon parses the next batches while the caller builds trees of the last one. Yields what became of each
        batch as it finishes, perhaps before an earlier one. One that fails does not end the stream. Nothing is retried;
        without a timeout there is no deadline.
        """
        stream = _parse.ParseStream(_parse.ParseOptions(outputs, feature_version, mode))
        requests = (stream.request(at, sources) async for at, sources in numbered(batches))
        async for answer in self._caller.stream(_parse.PARSE_STREAM, requests, timeout):
            yield stream.outcome(answer)

    def collection(self, name: str) -> AsyncCollection:
        """A collection by name; asks nothing of the daemon."""
        return AsyncCollection(self, name)

    async def collections(self, *, timeout: float | None = None) -> list[CollectionInfo]:
        """Every collection, by name."""
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
        """Makes a collection: of a model's dimensions where one is named. Storage: f32, f16, bf16 or i8.

        text_field: the payload field with a point's text, for hybrid searches.
        """
        operation = _points.create(name, dimensions, metric, storage, model, text_field, durable)
        await self._caller.run(operation, timeout)
        return AsyncCollection(self, name)

    async def restore_collection(self, url: str, name: str = "", *, timeout: float | None = None) -> AsyncCollection:
        """Makes a collection from a snapshot; an empty name keeps the snapshot's."""
        return AsyncCollection(self, await self._caller.run(_points.restore(url, name), timeout))

    async def devices(self, *, timeout: float | None = None) -> list[Device]:
        """What the daemon runs on, the CPU pool last."""
        return await self._caller.run(_device.list_devices(), timeout)

    async def stats(self, *, timeout: float | None = None) -> Stats:
        """Queues, batches, pools and kernel times since the daemon's start."""
        return await self._caller.run(_device.get_stats(), timeout)


class AsyncCollection:
    """A collection by name; it need not exist.

    Filters are dicts of field to test: a value, a list of values, or `slice(low, high)` for `low <= x < high`.

    `timeout` is seconds that a call may take, retries included; None is the client's.
    """

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"AsyncCollection({self.name!r})"

    @property
    def _caller(self) -> AsyncCaller:
        return self._client._caller

    async def describe(self, *, timeout: float | None = None) -> CollectionInfo:
        """What is known of it."""
        return await self._caller.run(_points.describe(self.name), timeout)

    async def delete(self, *, timeout: float | None = None) -> None:
        """Drops it, its log and its local snapshots."""
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
        """Writes points. Returns how many are new.

        All or none are written where they fit into one message (`max_message_bytes`). More are written in parts, in
        order, each all or none; after a failure earlier parts stay.

        payloads: a list of dicts, one a point, or a dict of columns: for each field a list or an array of values, None
            where a point has none. Columns are faster.
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
                async for answer in self._caller.stream(_points.UPSERT_STREAM, split.requests(), left):
                    split.answered(answer)
                if not split.is_done:
                    raise malformed("the stream ended before its last step")
            except AccelerdError as problem:
                wait = split.failed(problem)
                if time.monotonic() + wait >= deadline:
                    raise
                await asyncio.sleep(wait)
        return split.inserted

    async def upsert_many(self, steps: Batches[UpsertStep], *, timeout: float | None = None) -> AsyncIterator[int]:
        """Writes in bulk: each step is a dict of the arguments of `upsert`. Yields how many points of each are new.

        Steps are read as they are sent and may have any size; each is sent in messages of some MiB, each all or none.
        Nothing is retried; without a timeout there is no deadline.
        """
        bulk = _points.BulkUpsert(self.name, self._caller.settings)
        requests = (message async for _, step in numbered(steps) for message in bulk.messages(step))
        async for answer in self._caller.stream(_points.UPSERT_STREAM, requests, timeout):
            inserted = bulk.answered(answer)
            if inserted is not None:
                yield inserted

    async def search(self, *, timeout: float | None = None, **options: Unpack[SearchOptions]) -> list[list[Hit]]:
        """The nearest points of each query, best first, exactly.

        texts, vectors or ids: the queries; stored points by id find themselves, too.
        k: hits of each query, 10 if left out, after the first `offset`.
        threshold: leaves out hits that score worse.
        where, where_not: tests that points must pass, and must not.
        payload: whether hits have their payload, True if left out.
        hybrid: rank by the words of texts as well as by their vectors, in a collection with a `text_field`.
        fusion: how it makes one ranking of two: "relative_score", the default, or "reciprocal_rank".
        word_weight: what words weigh in it, from 0 to 1; vectors weigh the rest. Half if left out.
        """
        return await self._caller.run(_points.search(self.name, options), timeout)

    async def search_columns(self, *, timeout: float | None = None, **options: Unpack[SearchOptions]) -> Hits:
        """The same as `search`, as columns: cheaper for many hits."""
        return await self._caller.run(_points.search_columns(self.name, options), timeout)

    async def get(
        self, ids: Iterable[Id] | NDArray[Any], *, vectors: bool = False, timeout: float | None = None
    ) -> list[Point]:
        """Reads points back; unknown ids are left out."""
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
        """Every point that passes, in ascending order of ids, read page by page. `timeout` is a page's."""
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
        """The same as `scroll`, a page at a time, as columns."""
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
        """How many points pass, exactly."""
        return await self._caller.run(_points.count(self.name, where, where_not), timeout)

    async def delete_points(
        self,
        ids: Iterable[Id] | NDArray[Any] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> int:
        """Deletes points that pass every test given. Returns how many there were."""
        return await self._caller.run(_points.delete_points(self.name, ids, where, where_not), timeout)

    async def snapshot(self, url: str = "", *, timeout: float | None = None) -> Snapshot:
        """Writes a versioned snapshot to an object store; without a URL to the configured one."""
        return await self._caller.run(_points.create_snapshot(self.name, url), timeout)
