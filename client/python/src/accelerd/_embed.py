"""Requests for vectors, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from ._call import malformed
from ._errors import AccelerdError, from_item
from ._proto import embed_pb2 as pb
from ._tensor import to_array

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.


class EmbedOptions(TypedDict, total=False):
    """How to embed; what is left out is as the model's own files say."""

    #: Name or alias of a loaded model; empty means `builtin`.
    model: str
    #: Leading dimensions to keep; 0 keeps all.
    dimensions: int
    #: Whether to scale to unit length; None is what the model's own files say.
    normalize: bool | None
    #: cls, mean, max, last, weighted_mean, or none for a vector a token.
    pooling: str
    #: (text, first byte, behind the last byte) of parts that have vectors instead of the texts.
    spans: Sequence[tuple[int, int, int]]
    #: A prompt of the model, put before each text.
    prompt_name: str
    #: A prompt in its own words; empty is no prompt.
    prompt: str | None
    #: right or left, the end of a long text that is left out.
    truncation_side: str
    #: truncate, error or chunk.
    long_input: str
    #: Most tokens of a text; 0 is the model's own limit.
    max_tokens: int
    #: f32, f16, int8 (a `Quantized`) or binary (uint8, a bit a dimension).
    output: str
    #: Whether a GPU computes GELU through the error function.
    exact_gelu: bool


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
    known = [
        value.name.removeprefix(f"{prefix}_").lower()
        for value in enum.DESCRIPTOR.values
        if not value.name.endswith("_UNSPECIFIED")
    ]
    if name and name not in known:
        raise ValueError(f"expected one of {', '.join(known)}, got {name!r}")
    return enum.Value(f"{prefix}_{name.upper() or 'UNSPECIFIED'}")


def text_input(texts: Sequence[str]) -> pb.TextInput:
    """Texts in a message. Half a character, a lone surrogate, has no UTF-8: the text that has one is named."""
    try:
        return pb.TextInput(values=texts)
    except UnicodeEncodeError:
        for at, text in enumerate(texts):
            try:
                text.encode()
            except UnicodeEncodeError as wrong:
                raise ValueError(f"texts[{at}] has half a character at {wrong.start}, a lone surrogate") from None
        raise


def request(
    *, texts: Sequence[str] | None = None, tokens: Tokens | None = None, **options: Unpack[EmbedOptions]
) -> pb.EmbedRequest:
    """The message."""
    if isinstance(texts, str):
        raise TypeError("texts is a list of texts, not one text")
    if unknown := options.keys() - EmbedOptions.__annotations__.keys():
        raise TypeError(f"expected options of EmbedOptions, got {', '.join(sorted(unknown))}")
    listed = None if tokens is None else pb.TokenInput(ids=tokens.ids.tolist(), offsets=tokens.offsets.tolist())
    spans = [pb.Span(text=text, start=start, end=end) for text, start, end in options.get("spans", ())]
    made = pb.EmbedRequest(
        model=options.get("model", ""),
        texts=None if texts is None else text_input(texts),
        tokens=listed,
        dimensions=options.get("dimensions", 0),
        pooling=number(pb.Pooling, "POOLING", options.get("pooling", "")),
        spans=spans,
        prompt_name=options.get("prompt_name", ""),
        prompt=options.get("prompt"),
        truncation_side=number(pb.TruncationSide, "TRUNCATION_SIDE", options.get("truncation_side", "")),
        long_input=number(pb.LongInput, "LONG_INPUT", options.get("long_input", "")),
        max_tokens=options.get("max_tokens", 0),
        output_type=number(pb.OutputType, "OUTPUT_TYPE", options.get("output", "f32")),
        exact_gelu=options.get("exact_gelu", False),
    )
    if (normalize := options.get("normalize")) is not None:
        made.normalize = normalize
    return made


def vectors(answer: pb.EmbedResponse) -> NDArray[Any] | Quantized:
    """The vectors of an answer."""
    rows = to_array(answer.embeddings)
    return Quantized(rows, to_array(answer.scales)) if answer.HasField("scales") else rows


class Requests:
    """The messages of a stream. They are made on a thread of gRPC's, which keeps to itself why one could not be."""

    def __init__(self, batches: Iterable[Sequence[str]], options: EmbedOptions) -> None:
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
