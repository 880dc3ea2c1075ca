"""Results of calls, as plain types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from . import _html
from ._choices import DeviceKind, DeviceState, Metric, Pooling, Precision, Storage
from ._html import ResultList, Shown
from ._proto import device_pb2, embed_pb2, similarity_pb2
from ._times import to_datetime, to_timedelta

Plain = TypeVar("Plain")

_TIMES: dict[Any, Callable[[Any], Any]] = {datetime: to_datetime, timedelta: to_timedelta}


@dataclass(frozen=True)
class Ranked:
    """A document's rank."""

    #: Index of the document in the call.
    index: int
    #: Relevance; higher is better. Scores of different models are not comparable.
    score: float


class Similar(NamedTuple):
    """The nearest rows of each query, best first."""

    #: int32 [queries, k], rows of the corpus; -1 where fewer than k rows pass the threshold.
    indices: NDArray[np.int32]
    #: float32 [queries, k]; NaN where the index is -1.
    scores: NDArray[np.float32]

    def _repr_html_(self) -> str:
        queries, k = self.indices.shape
        pairs = ((query, rank) for query in range(queries) for rank in range(k))
        rows = ([query, rank, self.indices[query, rank].item(), self.scores[query, rank]] for query, rank in pairs)
        caption = f"{k:,} nearest rows of {queries:,} queries"
        return _html.table(caption, ["query", "rank", "row", "score"], rows, queries * k)


class Clusters(NamedTuple):
    """Result of k-means."""

    #: float32 [clusters, dimensions].
    centers: NDArray[np.float32]
    #: int32 [rows], the cluster of each row.
    assignments: NDArray[np.int32]
    #: Sum of squared distances of the rows to their centers.
    inertia: float
    iterations: int
    #: Whether the tolerance was reached.
    converged: bool
    #: Id of each row, if the rows are those of a collection.
    ids: list[int | str]

    def _repr_html_(self) -> str:
        sizes = np.bincount(self.assignments, minlength=len(self.centers))
        rows = ([at, size, center] for at, (size, center) in enumerate(zip(sizes.tolist(), self.centers, strict=True)))
        done = "converged" if self.converged else "did not converge"
        caption = (
            f"{len(self.centers):,} clusters of {len(self.assignments):,} rows, inertia {self.inertia:.6g}, "
            f"{done} in {self.iterations} iterations"
        )
        return _html.table(caption, ["cluster", "rows", "center"], rows, len(self.centers))


@dataclass(frozen=True)
class Model(Shown):
    """A loaded model."""

    name: str
    aliases: tuple[str, ...]
    #: `table`, or the `model_type` of its config.json.
    architecture: str
    #: Dimensions of its vectors, and those that `embed(dimensions=...)` supports.
    dimensions: int
    supported_dimensions: tuple[int, ...]
    vocabulary_size: int
    size_bytes: int
    #: SHA-256 of its weights, in hexadecimal.
    sha256: str
    #: SHA-256 of its weights, configuration and tokenizer. Models with equal digests compute the same vectors.
    digest: str
    #: Maximum tokens of an input, and the default of `embed(max_tokens=...)`; 0 means unlimited.
    max_tokens: int
    default_max_tokens: int
    #: Empty if unspecified.
    pooling: Pooling
    normalize: bool
    prompt_names: tuple[str, ...]
    #: Whether it accepts texts as well as token ids.
    accepts_text: bool
    #: Whether it is a cross-encoder, for `rerank`.
    cross_encoder: bool
    #: On a GPU and on the CPU.
    precision: Precision
    cpu_precision: Precision


@dataclass(frozen=True)
class CollectionInfo(Shown):
    """Configuration and size of a collection."""

    name: str
    dimensions: int
    metric: Metric
    storage: Storage
    #: The model that embeds its texts, and the payload field of its full-text index; empty if there is none.
    model: str
    text_field: str
    #: `digest` of that model; empty without a model, or until an older collection embeds its first texts.
    model_digest: str
    #: The prompts that are prepended to the texts of points and of queries, and the model's names of them, which are
    #: empty for prompts given as texts. None without a model, if the model had no prompts, or in a collection that an
    #: earlier version created: then texts have the model's default prompt, if it has one.
    document_prompt: str | None
    document_prompt_name: str
    query_prompt: str | None
    query_prompt_name: str
    #: Whether acknowledged writes survive a crash.
    durable: bool
    point_count: int
    #: Deleted or replaced rows that are not compacted yet.
    tombstone_count: int
    host_memory_bytes: int
    device_memory_bytes: int
    #: The device that scans it: `cpu`, `cuda:0`, ...
    device: str
    create_time: datetime
    #: Whether it takes no changes, because its files are damaged; and the damaged places.
    read_only: bool
    damage: tuple[str, ...]
    #: Points that are not served, because their stored vectors have NaN or infinity; and up to 100 of their ids.
    set_aside_count: int
    set_aside_ids: tuple[int | str, ...]


@dataclass(frozen=True)
class Snapshot(Shown):
    """A snapshot in an object store."""

    #: URL, for `restore_collection`.
    url: str
    #: Increases with each snapshot of the collection.
    version: int
    point_count: int
    size_bytes: int
    create_time: datetime


@dataclass(frozen=True)
class MemoryPool:
    """State of a device's memory pool."""

    used_bytes: int
    reserved_bytes: int
    peak_bytes: int
    limit_bytes: int
    allocation_count: int


@dataclass(frozen=True)
class Device(Shown):
    """A device of the daemon."""

    #: `cpu`, `cuda:0`, ...
    name: str
    kind: DeviceKind
    product: str
    compute_capability: str
    state: DeviceState
    #: Streaming multiprocessors of a GPU, or threads of the CPU worker pool.
    compute_unit_count: int
    memory_bytes: int
    pool: MemoryPool


@dataclass(frozen=True)
class Latency:
    """A latency distribution."""

    mean: timedelta
    p50: timedelta
    p99: timedelta
    max: timedelta


@dataclass(frozen=True)
class LaneStats:
    """Statistics of a lane: the queue and the batches of one operation."""

    name: str
    queued_count: int
    queued_bytes: int
    batch_count: int
    request_count: int
    item_count: int
    failed_count: int
    cancelled_count: int
    wait: Latency
    execute: Latency
    mean_batch_requests: float


@dataclass(frozen=True)
class KernelStats:
    """Statistics of a kernel on a device; `moved_bytes` is 0 if it does not count what it reads and writes."""

    name: str
    device: str
    call_count: int
    total: timedelta
    moved_bytes: int


@dataclass(frozen=True)
class Admission:
    """Admission control: requests in flight and their limits."""

    item_count: int
    item_limit: int
    size_bytes: int
    limit_bytes: int
    refused_count: int


@dataclass(frozen=True)
class MemoryAccount:
    """Memory held for one kind of use, part of which is in use; a limit of 0 means that only the place has one."""

    kind: str
    held_bytes: int
    limit_bytes: int
    refused_count: int
    evicted_bytes: int
    used_bytes: int


@dataclass(frozen=True)
class MemoryPlace:
    """Memory of the host or of a GPU: held, including what is reserved in advance; in use; resident, as a process."""

    name: str
    held_bytes: int
    limit_bytes: int
    accounts: tuple[MemoryAccount, ...]
    used_bytes: int
    resident_bytes: int


@dataclass(frozen=True)
class CpuFallback:
    """Requests of a lane that the CPU computed because a GPU could not; `out_of_memory`: it had no memory for them."""

    lane: str
    device: str
    reason: str
    request_count: int
    item_count: int
    size_bytes: int


@dataclass(frozen=True)
class Stats:
    """Statistics of the daemon since its start."""

    version: str
    uptime: timedelta
    lanes: tuple[LaneStats, ...]
    devices: tuple[Device, ...]
    kernels: tuple[KernelStats, ...]
    admission: Admission
    draining: bool
    memory: tuple[MemoryPlace, ...]
    cpu_fallbacks: tuple[CpuFallback, ...]

    def _repr_html_(self) -> str:
        state = ", draining" if self.draining else ""
        heading = _html.heading(f"accelerd {self.version}, up for {self.uptime}{state}")
        tables = (self.devices, self.lanes, self.kernels, self.memory)
        return heading + "".join(ResultList[Any](one)._repr_html_() for one in tables if one)


def model(message: embed_pb2.Model) -> Model:
    """Convert a model."""
    return _plain(Model, message)


def collection(message: similarity_pb2.Collection) -> CollectionInfo:
    """Convert a collection."""
    aside = message.set_aside_ids
    return _plain(
        CollectionInfo,
        message,
        set_aside_ids=(*aside.numbers, *aside.uuids),
        document_prompt=message.document_prompt if message.HasField("document_prompt") else None,
        query_prompt=message.query_prompt if message.HasField("query_prompt") else None,
    )


def snapshot(message: similarity_pb2.Snapshot) -> Snapshot:
    """Convert a snapshot."""
    return _plain(Snapshot, message)


def device(message: device_pb2.Device) -> Device:
    """Convert a device."""
    return _plain(Device, message)


def stats(message: device_pb2.GetStatsResponse) -> Stats:
    """Convert statistics."""
    return _plain(Stats, message)


def _plain(cls: Callable[..., Plain], message: Any, **given: Any) -> Plain:
    """Convert a message to a dataclass with the same field names, except for the fields that are given."""
    for name, convert in _conversions(cls, message.DESCRIPTOR):
        if name not in given:
            given[name] = convert(getattr(message, name))
    return cls(**given)


@functools.cache
def _conversions(cls: Any, message: Any) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return what converts each field of a message to the type that it has in a dataclass."""
    hints, found = get_type_hints(cls), message.fields_by_name
    return [(field.name, _conversion(hints[field.name], found[field.name].enum_type)) for field in fields(cls)]


def _conversion(hint: Any, enum: Any) -> Callable[[Any], Any]:
    if get_origin(hint) is tuple:
        convert = _conversion(get_args(hint)[0], enum)
        return lambda values: tuple(map(convert, values))
    if enum is not None:
        return _short_names(enum)
    if isinstance(hint, type) and is_dataclass(hint):
        return functools.partial(_plain, hint)
    return _TIMES.get(hint, lambda value: value)


def _short_names(enum: Any) -> Callable[[int], str]:
    """Return what names the values of an enum, such as `mean` for POOLING_MEAN; empty if unspecified or unknown."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    names = {number: value.name.removeprefix(prefix).lower() for number, value in enum.values_by_number.items()}
    return lambda number: names.get(number, "") if number else ""
