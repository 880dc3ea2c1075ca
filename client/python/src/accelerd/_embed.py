"""Requests for vectors, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._call import malformed
from ._errors import AccelerdError, from_item
from ._proto import embed_pb2 as pb
from ._tensor import to_array


class Tokens(NamedTuple):
    """Token ids of many texts, flattened."""

    #: uint32, ids of all texts, one after the other.
    ids: NDArray[np.uint32]
    #: uint32, where each text starts in `ids`, then the length of `ids`.
    offsets: NDArray[np.uint32]


class Quantized(NamedTuple):
    """Vectors in one byte a number: row i is `scales[i] * values[i]`."""

    #: int8 [vectors, dimensions].
    values: NDArray[np.int8]
    #: float32 [vectors].
    scales: NDArray[np.float32]


class EmbedOutcome(NamedTuple):
    """What became of one batch of a stream."""

    #: Which batch, counted from 0.
    sequence: int
    #: Its vectors; None where it failed.
    vectors: NDArray[Any] | Quantized | None
    #: Why it failed.
    error: AccelerdError | None


def number(enum: Any, prefix: str, name: str) -> Any:
    """A number of an enum by the end of its name; empty is what the daemon takes by default."""
    known = [key.removeprefix(f"{prefix}_").lower() for key in enum.keys() if not key.endswith("_UNSPECIFIED")]
    if name and name not in known:
        raise ValueError(f"expected one of {', '.join(known)}, got {name!r}")
    return enum.Value(f"{prefix}_{name.upper() or 'UNSPECIFIED'}")


def request(
    *,
    texts: Sequence[str] | None = None,
    tokens: Tokens | None = None,
    model: str = "",
    dimensions: int = 0,
    normalize: bool | None = None,
    pooling: str = "",
    spans: Sequence[tuple[int, int, int]] = (),
    prompt_name: str = "",
    prompt: str | None = None,
    truncation_side: str = "",
    long_input: str = "",
    max_tokens: int = 0,
    output: str = "f32",
    exact_gelu: bool = False,
) -> pb.EmbedRequest:
    """The message; `Client.embed` says what each argument means."""
    if isinstance(texts, str):
        raise TypeError("texts is a list of texts, not one text")
    listed = None if tokens is None else pb.TokenInput(ids=tokens.ids.tolist(), offsets=tokens.offsets.tolist())
    return pb.EmbedRequest(
        model=model,
        texts=None if texts is None else pb.TextInput(values=texts),
        tokens=listed,
        dimensions=dimensions,
        normalize=normalize,
        pooling=number(pb.Pooling, "POOLING", pooling),
        spans=[pb.Span(text=text, start=start, end=end) for text, start, end in spans],
        prompt_name=prompt_name,
        prompt=prompt,
        truncation_side=number(pb.TruncationSide, "TRUNCATION_SIDE", truncation_side),
        long_input=number(pb.LongInput, "LONG_INPUT", long_input),
        max_tokens=max_tokens,
        output_type=number(pb.OutputType, "OUTPUT_TYPE", output),
        exact_gelu=exact_gelu,
    )


def vectors(answer: pb.EmbedResponse) -> NDArray[Any] | Quantized:
    """The vectors of an answer."""
    rows = to_array(answer.embeddings)
    return Quantized(rows, to_array(answer.scales)) if answer.HasField("scales") else rows


class Requests:
    """The messages of a stream. They are made on a thread of gRPC's, which keeps to itself why one could not be."""

    def __init__(self, batches: Iterable[Sequence[str]], options: dict[str, Any]) -> None:
        request(**options)  # Options that are wrong are so for every batch.
        self._batches = batches
        self._options = options
        #: Why a message could not be made.
        self.problem: Exception | None = None

    def __iter__(self) -> Iterator[pb.EmbedStreamRequest]:
        try:
            for sequence, texts in enumerate(self._batches):
                yield pb.EmbedStreamRequest(sequence=sequence, embed=request(texts=texts, **self._options))
        except Exception as problem:
            self.problem = problem
            raise


def outcome(answer: pb.EmbedStreamResponse) -> EmbedOutcome:
    """What became of a batch."""
    kind = answer.WhichOneof("result")
    if kind == "embed":
        return EmbedOutcome(answer.sequence, vectors(answer.embed), None)
    if kind == "error":
        return EmbedOutcome(answer.sequence, None, from_item(answer.error))
    raise malformed(f"batch {answer.sequence} without an outcome")
