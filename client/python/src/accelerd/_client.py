"""The blocking client."""

from __future__ import annotations

import ast
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _device, _embed, _parse, _points, _similar
from ._blocking_call import Caller
from ._blocking_kernel import KernelCalls
from ._blocking_tensor import TensorCalls
from ._blocking_verify import VerifyCalls
from ._call import DEFAULT_ATTEMPTS, DEFAULT_MESSAGE_BYTES, DEFAULT_TIMEOUT, Settings
from ._collection import Collection
from ._credentials import Tls
from ._embed import EmbedOptions, EmbedOutcome, Quantized, Tokens
from ._errors import MessageTooLargeError
from ._parse import Mode, Parsed, ParseOutcome, Source
from ._results import Clusters, CollectionInfo, Device, Model, Ranked, Similar, Stats
from ._tensor import to_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.


class Client(TensorCalls, KernelCalls, VerifyCalls):
    """Client of a daemon, over one or more connections.

    A client is thread-safe. A pickled client reconnects where it is unpickled. A client that made a call before a
    `fork` raises in the child process.

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
        self._caller = Caller(settings)

    @property
    def target(self) -> str:
        """Address of the daemon."""
        return self._caller.settings.target

    def __repr__(self) -> str:
        return f"Client({self.target!r})"

    def close(self) -> None:
        """Close the connections."""
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
        """Embed token ids: those of `tokenize`, or a list of lists. Takes the options of `embed`."""
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
        """Embed batches of texts over one stream. Takes the options of `embed`.

        A failed batch does not end the stream. Nothing is retried, and without a timeout there is no deadline.

        Yields:
            The outcome of each batch in the order of completion.
        """
        encode = _embed.stream_encoder(output, options)
        requests = (encode(at, texts) for at, texts in enumerate(batches))
        for response in self._caller.stream(_embed.EMBED_STREAM, requests, timeout):
            yield _embed.outcome(response)

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
        """Load a model.

        Args:
            name: Its name in calls.
            path: A folder or file on the daemon's machine, or `hf://owner/name[@revision]` for a model of its hub.
            aliases: Other names in calls.
            precision: "bf16", "f16" or "f32"; empty means the daemon's default.
            timeout: Seconds for the whole call, retries included.
        """
        return self._caller.run(_embed.load_model(name, path, aliases, precision), timeout)

    def unload_model(self, name: str, *, timeout: float | None = None) -> str:
        """Unload a model, by name or alias. Returns its name."""
        return self._caller.run(_embed.unload_model(name), timeout)

    def tokenize(self, texts: Sequence[str], *, model: str = "", timeout: float | None = None) -> Tokens:
        """Convert texts to the token ids of a model."""
        return self._caller.run(_embed.tokenize(texts, model), timeout)

    def models(self, *, timeout: float | None = None) -> list[Model]:
        """Return the loaded models, sorted by name."""
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
            clusters: Number of clusters.
            max_iterations: Maximum Lloyd iterations; 0 means the daemon's default.
            tolerance: Stop when the squared movement of the centers falls below this fraction of the data's variance.
            n_init: Number of k-means++ initialisations; the result with the lowest inertia is returned.
            spherical: Whether to normalise rows and centers (spherical k-means).
            seed: Seed of the initialisations.
            timeout: Seconds for the whole call, retries included.
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
        """Parse batches of sources over one stream. Takes the arguments of `parse`.

        The daemon parses the next batches while the caller builds the trees of the last one. A failed batch does not
        end the stream. Nothing is retried, and without a timeout there is no deadline.

        Yields:
            The outcome of each batch in the order of completion.
        """
        stream = _parse.ParseStream(_parse.ParseOptions(outputs, feature_version, mode))
        requests = (stream.request(at, sources) for at, sources in enumerate(batches))
        for response in self._caller.stream(_parse.PARSE_STREAM, requests, timeout):
            yield stream.outcome(response)

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
        metric: str = "cosine",
        storage: str = "",
        model: str = "",
        text_field: str = "",
        durable: bool = False,
        timeout: float | None = None,
    ) -> Collection:
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
        self._caller.run(operation, timeout)
        return Collection(self._caller, name)

    def restore_collection(self, url: str, name: str = "", *, timeout: float | None = None) -> Collection:
        """Create a collection from a snapshot. An empty name means the original's."""
        return Collection(self._caller, self._caller.run(_points.restore(url, name), timeout))

    def devices(self, *, timeout: float | None = None) -> list[Device]:
        """Return the daemon's devices: GPUs first, then the CPU worker pool."""
        return self._caller.run(_device.list_devices(), timeout)

    def stats(self, *, timeout: float | None = None) -> Stats:
        """Return statistics of queues, batches, memory pools and kernels since the daemon's start."""
        return self._caller.run(_device.get_stats(), timeout)
