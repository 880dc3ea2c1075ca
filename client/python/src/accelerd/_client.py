"""The client: connects, embeds, compares, clusters, parses."""

from __future__ import annotations

import ast
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _device, _embed, _parse, _points, _similar
from ._call import DEFAULT_ATTEMPTS, DEFAULT_MESSAGE_BYTES, DEFAULT_TIMEOUT, Caller, Settings
from ._collection import Collection
from ._embed import EmbedOptions, EmbedOutcome, Quantized, Tokens
from ._errors import MessageTooLargeError
from ._parse import Mode, Parsed, ParseOutcome, Source
from ._results import Clusters, CollectionInfo, Device, Model, Ranked, Similar, Stats
from ._tensor import to_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.


class Client:
    """One or several connections to a daemon.

    Threads may share it. A pickled client connects anew where it is unpickled. Processes made by `fork` must not use a
    client that has called before: its calls raise there.

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
        self._caller = Caller(Settings.of(target, timeout, attempts, max_message_bytes, connections))

    @property
    def target(self) -> str:
        """Where the daemon is."""
        return self._caller.settings.target

    def __repr__(self) -> str:
        return f"Client({self.target!r})"

    def __getstate__(self) -> Settings:
        return self._caller.settings

    def __setstate__(self, settings: Settings) -> None:
        self._caller = Caller(settings)

    def close(self) -> None:
        """Closes the connections."""
        self._caller.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        output: Literal["f32", "bf16"] = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.float32]: ...

    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        output: Literal["f16"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.float16]: ...

    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        output: Literal["binary"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.uint8]: ...

    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        output: Literal["int8"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Quantized: ...

    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        output: _embed.Output,
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any] | Quantized: ...

    def embed(
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
        vectors: NDArray[Any] | Quantized = self._caller.run_split(split, timeout)
        return vectors

    @overload
    def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: Literal["f32", "bf16"] = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.float32]: ...

    @overload
    def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: Literal["f16"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.float16]: ...

    @overload
    def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: Literal["binary"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.uint8]: ...

    @overload
    def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: Literal["int8"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Quantized: ...

    @overload
    def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: _embed.Output,
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any] | Quantized: ...

    def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: _embed.Output = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any] | Quantized:
        """Vectors of token ids, as `tokenize` makes them or as a list of lists; options as for `embed`."""
        split = _embed.embed_tokens(tokens, output, options, self._caller.settings)
        vectors: NDArray[Any] | Quantized = self._caller.run_split(split, timeout)
        return vectors

    @overload
    def embed_stream(
        self,
        batches: Iterable[Sequence[str]],
        *,
        output: Literal["f32", "bf16"] = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Iterator[EmbedOutcome[NDArray[np.float32]]]: ...

    @overload
    def embed_stream(
        self,
        batches: Iterable[Sequence[str]],
        *,
        output: Literal["f16"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Iterator[EmbedOutcome[NDArray[np.float16]]]: ...

    @overload
    def embed_stream(
        self,
        batches: Iterable[Sequence[str]],
        *,
        output: Literal["binary"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Iterator[EmbedOutcome[NDArray[np.uint8]]]: ...

    @overload
    def embed_stream(
        self,
        batches: Iterable[Sequence[str]],
        *,
        output: Literal["int8"],
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Iterator[EmbedOutcome[Quantized]]: ...

    @overload
    def embed_stream(
        self,
        batches: Iterable[Sequence[str]],
        *,
        output: _embed.Output,
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Iterator[EmbedOutcome[NDArray[Any] | Quantized]]: ...

    def embed_stream(
        self,
        batches: Iterable[Sequence[str]],
        *,
        output: _embed.Output = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Iterator[EmbedOutcome[Any]]:
        """Embeds a corpus, batch after batch; options as for `embed`.

        Yields what became of each batch as it finishes, perhaps before an earlier one. One that fails does not end the
        stream. Nothing is retried; without a timeout there is no deadline.
        """
        encode = _embed.stream_encoder(output, options)
        requests = (encode(at, texts) for at, texts in enumerate(batches))
        for answer in self._caller.stream(_embed.EMBED_STREAM, requests, timeout):
            yield _embed.outcome(answer)

    def rerank(
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
        return self._caller.run(operation, timeout)

    def load_model(
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
        return self._caller.run(_embed.load_model(name, path, aliases, precision), timeout)

    def unload_model(self, name: str, *, timeout: float | None = None) -> str:
        """Forgets a model; its name."""
        return self._caller.run(_embed.unload_model(name), timeout)

    def tokenize(self, texts: Sequence[str], *, model: str = "", timeout: float | None = None) -> Tokens:
        """The token ids a model would see."""
        return self._caller.run(_embed.tokenize(texts, model), timeout)

    def models(self, *, timeout: float | None = None) -> list[Model]:
        """The models that are loaded."""
        return self._caller.run(_embed.list_models(), timeout)

    def find_similar(
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
        return self._caller.run_split(split, timeout)

    def cluster(
        self,
        source: ArrayLike | Collection,
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
            collection.upsert(np.arange(len(rows)), vectors=rows, timeout=max(deadline - time.monotonic(), 0.0))
            return _similar.in_order(self._caller.until(means.collection(name), deadline))
        finally:
            collection.delete()

    @overload
    def parse(
        self,
        sources: Iterable[Source],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["exec"] = "exec",
        timeout: float | None = None,
    ) -> list[Parsed[ast.Module]]: ...

    @overload
    def parse(
        self,
        sources: Iterable[Source],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["eval"],
        timeout: float | None = None,
    ) -> list[Parsed[ast.Expression]]: ...

    @overload
    def parse(
        self,
        sources: Iterable[Source],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["single"],
        timeout: float | None = None,
    ) -> list[Parsed[ast.Interactive]]: ...

    @overload
    def parse(
        self,
        sources: Iterable[Source],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Mode,
        timeout: float | None = None,
    ) -> list[Parsed[ast.mod]]: ...

    def parse(
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
        return self._caller.run_split(_parse.parse(sources, options, self._caller.settings), timeout)

    @overload
    def parse_stream(
        self,
        batches: Iterable[Iterable[Source]],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["exec"] = "exec",
        timeout: float | None = None,
    ) -> Iterator[ParseOutcome[ast.Module]]: ...

    @overload
    def parse_stream(
        self,
        batches: Iterable[Iterable[Source]],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["eval"],
        timeout: float | None = None,
    ) -> Iterator[ParseOutcome[ast.Expression]]: ...

    @overload
    def parse_stream(
        self,
        batches: Iterable[Iterable[Source]],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Literal["single"],
        timeout: float | None = None,
    ) -> Iterator[ParseOutcome[ast.Interactive]]: ...

    @overload
    def parse_stream(
        self,
        batches: Iterable[Iterable[Source]],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Mode,
        timeout: float | None = None,
    ) -> Iterator[ParseOutcome[ast.mod]]: ...

    def parse_stream(
        self,
        batches: Iterable[Iterable[Source]],
        *,
        outputs: Sequence[_parse.Output] = ("tree",),
        feature_version: int | tuple[int, int] | None = None,
        mode: Mode = "exec",
        timeout: float | None = None,
    ) -> Iterator[ParseOutcome[Any]]:
        """Parses batch after batch; arguments as of `parse`.

        The daemon parses the next batches while the caller builds trees of the last one. Yields what became of each
        batch as it finishes, perhaps before an earlier one. One that fails does not end the stream. Nothing is retried;
        without a timeout there is no deadline.
        """
        stream = _parse.ParseStream(_parse.ParseOptions(outputs, feature_version, mode))
        requests = (stream.request(at, sources) for at, sources in enumerate(batches))
        for answer in self._caller.stream(_parse.PARSE_STREAM, requests, timeout):
            yield stream.outcome(answer)

    def collection(self, name: str) -> Collection:
        """A collection by name; asks nothing of the daemon."""
        return Collection(self, name)

    def collections(self, *, timeout: float | None = None) -> list[CollectionInfo]:
        """Every collection, by name."""
        return self._caller.run(_points.list_collections(), timeout)

    def create_collection(
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
    ) -> Collection:
        """Makes a collection: of a model's dimensions where one is named. Storage: f32, f16, bf16 or i8.

        text_field: the payload field with a point's text, for hybrid searches.
        """
        operation = _points.create(name, dimensions, metric, storage, model, text_field, durable)
        self._caller.run(operation, timeout)
        return Collection(self, name)

    def restore_collection(self, url: str, name: str = "", *, timeout: float | None = None) -> Collection:
        """Makes a collection from a snapshot; an empty name keeps the snapshot's."""
        return Collection(self, self._caller.run(_points.restore(url, name), timeout))

    def devices(self, *, timeout: float | None = None) -> list[Device]:
        """What the daemon runs on, the CPU pool last."""
        return self._caller.run(_device.list_devices(), timeout)

    def stats(self, *, timeout: float | None = None) -> Stats:
        """Queues, batches, pools and kernel times since the daemon's start."""
        return self._caller.run(_device.get_stats(), timeout)
