"""The client: connects, embeds, compares, clusters, parses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _embed, _parse
from ._call import Caller, Connections
from ._collection import Collection, Id, metric_number
from ._embed import EmbedOptions, EmbedOutcome, Quantized, Tokens
from ._errors import from_call
from ._parse import Parsed
from ._proto import (
    device_pb2,
    device_pb2_grpc,
    embed_pb2,
    embed_pb2_grpc,
    parse_pb2_grpc,
    similarity_pb2,
    similarity_pb2_grpc,
    tensor_pb2,
)
from ._tensor import to_array, to_tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.

DEFAULT_TARGET = "localhost:7433"

_STORAGE: dict[str, tensor_pb2.Dtype] = {
    "": tensor_pb2.DTYPE_UNSPECIFIED,
    "f32": tensor_pb2.DTYPE_F32,
    "f16": tensor_pb2.DTYPE_F16,
    "bf16": tensor_pb2.DTYPE_BF16,
    "i8": tensor_pb2.DTYPE_I8,
}


@dataclass(frozen=True)
class Ranked:
    """A document and its score."""

    #: Its place in the call.
    index: int
    #: The higher the better; comparable under one model only.
    score: float


class Similar(NamedTuple):
    """The best rows of each query, best first."""

    #: int32 [queries, k], rows of the corpus; -1 where fewer passed the threshold.
    indices: NDArray[np.int32]
    #: float32 [queries, k]; NaN where the index is -1.
    scores: NDArray[np.float32]


class Clusters(NamedTuple):
    """Clusters found by k-means."""

    #: float32 [clusters, dim].
    centers: NDArray[np.float32]
    #: int32 [rows], the cluster of each row.
    assignments: NDArray[np.int32]
    inertia: float
    iterations: int
    converged: bool
    #: For a collection: the id of each row.
    ids: list[int | str]


class Client:
    """One or several connections to a daemon at `host:port` or `unix:///path`. Safe to share between threads."""

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout: float = 60.0,
        attempts: int = 5,
        max_message_bytes: int = 256 << 20,
        connections: int = 1,
    ) -> None:
        """Connects when first used.

        timeout: seconds a call may take, retries included.
        attempts: how often a call is sent at most.
        connections: how many there are; each call goes over the next. The daemon serves each connection on one thread.
        """
        if connections < 1:
            raise ValueError(f"expected 1 connection or more, got {connections}")
        #: Where the daemon is.
        self.target = target.removeprefix("http://").removesuffix("/")
        options = [
            ("grpc.max_send_message_length", max_message_bytes),
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.lb_policy_name", "round_robin"),
            ("grpc.enable_retries", 0),
        ]
        self._channel = Connections(self.target, options, connections)
        self._call = Caller(timeout, attempts)
        self._embed = embed_pb2_grpc.EmbedServiceStub(self._channel)
        self._parse = parse_pb2_grpc.ParseServiceStub(self._channel)
        self._similarity = similarity_pb2_grpc.SimilarityServiceStub(self._channel)
        self._device = device_pb2_grpc.DeviceServiceStub(self._channel)

    def close(self) -> None:
        """Closes the connections."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def embed(self, texts: Sequence[str], **options: Unpack[EmbedOptions]) -> NDArray[Any] | Quantized:
        """Vectors of texts: float32 [texts, dimensions] where the options (`EmbedOptions`) say nothing else."""
        return _embed.vectors(self._call(self._embed.Embed, _embed.request(texts=texts, **options)))

    def embed_tokens(self, tokens: Tokens, **options: Unpack[EmbedOptions]) -> NDArray[Any] | Quantized:
        """Vectors of token ids, as `tokenize` makes them; options as for `embed`."""
        return _embed.vectors(self._call(self._embed.Embed, _embed.request(tokens=tokens, **options)))

    def embed_stream(self, batches: Iterable[Sequence[str]], **options: Unpack[EmbedOptions]) -> Iterator[EmbedOutcome]:
        """Embeds a corpus, batch after batch; options as for `embed`.

        Yields what became of each batch as it finishes, perhaps before an earlier one. One that fails does not end the
        stream. Nothing is retried, and there is no deadline.
        """
        requests = _embed.Requests(batches, options)
        try:
            for answer in self._embed.EmbedStream(iter(requests)):
                yield _embed.outcome(answer)
        except grpc.RpcError as failed:
            raise requests.problem or from_call(failed) from None

    def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        model: str,
        top_n: int = 0,
        raw_scores: bool = False,
        max_tokens: int = 0,
    ) -> list[Ranked]:
        """Documents in the order in which they answer a query, best first, by a loaded cross-encoder.

        top_n: most results; 0 is all documents.
        raw_scores: scores as the model's classifier gives them, unbounded.
        max_tokens: most tokens of the query and a document together; 0 is the model's own limit.
        """
        if isinstance(documents, str):
            raise TypeError("documents is a list of texts, not one text")
        request = embed_pb2.RerankRequest(
            model=model,
            query=query,
            documents=_embed.text_input(documents),
            top_n=top_n,
            raw_scores=raw_scores,
            max_tokens=max_tokens,
        )
        return [Ranked(result.index, result.score) for result in self._call(self._embed.Rerank, request).results]

    def load_model(
        self,
        name: str,
        path: str,
        *,
        aliases: Sequence[str] = (),
        precision: str = "",
        timeout: float | None = None,
    ) -> embed_pb2.Model:
        """Loads a model from a folder or file on the daemon's machine, or from its hub by `hf://owner/name[@revision]`.

        precision: bf16, f16 or f32.
        """
        request = embed_pb2.LoadModelRequest(
            name=name,
            path=path,
            aliases=aliases,
            precision=_embed.number(embed_pb2.Precision, "PRECISION", precision),
        )
        answer: embed_pb2.LoadModelResponse = self._call(self._embed.LoadModel, request, timeout=timeout)
        return answer.model

    def unload_model(self, name: str) -> str:
        """Forgets a model; its name."""
        request = embed_pb2.UnloadModelRequest(name=name)
        answer: embed_pb2.UnloadModelResponse = self._call(self._embed.UnloadModel, request)
        return answer.name

    def tokenize(self, texts: Sequence[str], *, model: str = "") -> Tokens:
        """The token ids a model would see."""
        request = embed_pb2.TokenizeRequest(model=model, texts=_embed.text_input(texts))
        tokens = self._call(self._embed.Tokenize, request).tokens
        return Tokens(np.array(tokens.ids, dtype=np.uint32), np.array(tokens.offsets, dtype=np.uint32))

    def models(self) -> list[embed_pb2.Model]:
        """The models that are loaded."""
        return list(self._call(self._embed.ListModels, embed_pb2.ListModelsRequest()).models)

    def find_similar(
        self,
        queries: ArrayLike,
        corpus: ArrayLike,
        k: int,
        *,
        metric: str = "cosine",
        threshold: float | None = None,
    ) -> Similar:
        """The k rows of a corpus nearest to each query, exactly. Metrics: cosine, dot, squared_l2."""
        request = similarity_pb2.FindSimilarRequest(
            queries=to_tensor(queries),
            corpus=to_tensor(corpus),
            metric=metric_number(metric),
            k=k,
            score_threshold=threshold,
        )
        answer = self._call(self._similarity.FindSimilar, request)
        return Similar(to_array(answer.indices), to_array(answer.scores))

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
        """k-means over rows or over all points of a collection."""
        request = similarity_pb2.ClusterRequest(
            vectors=None if isinstance(source, Collection) else to_tensor(source),
            collection=source.name if isinstance(source, Collection) else None,
            cluster_count=clusters,
            max_iterations=max_iterations,
            tolerance=tolerance,
            start_count=starts,
            spherical=spherical,
            seed=seed,
        )
        answer = self._call(self._similarity.Cluster, request, timeout=timeout)
        return Clusters(
            to_array(answer.centers),
            to_array(answer.assignments),
            answer.inertia,
            answer.iteration_count,
            answer.converged,
            [*answer.ids.numbers, *answer.ids.uuids],
        )

    def parse(
        self,
        sources: Sequence[bytes | str],
        *,
        outputs: Sequence[str] = ("tree",),
        feature_version: int = 0,
        timeout: float | None = None,
    ) -> list[Parsed]:
        """Parses Python, given as the bytes of files or as text: for each source its verdict and what was asked for.

        A source that is not Python has a `diagnostic`; the call succeeds.

        outputs: any of tree, tokens, comments, outline, line_starts.
        feature_version: minor version of the grammar, as in `ast.parse(feature_version=(3, n))`; 0 is the newest.
        """
        request = _parse.request(sources, outputs, feature_version)
        return _parse.parsed(request, self._call(self._parse.Parse, request, timeout=timeout))

    def collection(self, name: str) -> Collection:
        """A collection by name; asks nothing of the daemon."""
        return Collection(self, name)

    def collections(self) -> list[similarity_pb2.Collection]:
        """Every collection, by name."""
        request = similarity_pb2.ListCollectionsRequest()
        return list(self._call(self._similarity.ListCollections, request).collections)

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
    ) -> Collection:
        """Makes a collection: of a model's dimensions where one is named. Storage: f32, f16, bf16 or i8.

        text_field: the payload field with a point's text, for hybrid searches.
        """
        if storage not in _STORAGE:
            raise ValueError(f"expected one of f32, f16, bf16, i8, got {storage!r}")
        request = similarity_pb2.CreateCollectionRequest(
            name=name,
            dimensions=dimensions,
            metric=metric_number(metric),
            storage=_STORAGE[storage],
            model=model,
            text_field=text_field,
            durable=durable,
        )
        self._call(self._similarity.CreateCollection, request, repeatable=False)
        return Collection(self, name)

    def restore_collection(self, url: str, name: str = "") -> Collection:
        """Makes a collection from a snapshot; an empty name keeps the snapshot's."""
        request = similarity_pb2.RestoreCollectionRequest(url=url, name=name)
        restored = self._call(self._similarity.RestoreCollection, request, repeatable=False).collection
        return Collection(self, restored.name)

    def devices(self) -> list[device_pb2.Device]:
        """What the daemon runs on, the CPU pool last."""
        return list(self._call(self._device.ListDevices, device_pb2.ListDevicesRequest()).devices)

    def stats(self) -> device_pb2.GetStatsResponse:
        """Queues, batches, pools and kernel times since the daemon's start."""
        answer: device_pb2.GetStatsResponse = self._call(self._device.GetStats, device_pb2.GetStatsRequest())
        return answer


__all__ = ["Client", "Clusters", "Id", "Similar", "Tokens"]
