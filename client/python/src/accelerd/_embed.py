"""Requests for vectors, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._call import Method, Operation, Part, Settings, SplitOperation, parts_by_bytes
from ._errors import AccelerdError, from_item, malformed
from ._message import message
from ._proto import embed_pb2 as pb
from ._results import Model, Ranked, model
from ._tensor import to_array

if TYPE_CHECKING:
    pass  # In typing since Python 3.11.

EMBED = Method("EmbedService", "Embed", pb.EmbedResponse)
EMBED_STREAM = Method("EmbedService", "EmbedStream", pb.EmbedStreamResponse)
RERANK = Method("EmbedService", "Rerank", pb.RerankResponse)
TOKENIZE = Method("EmbedService", "Tokenize", pb.TokenizeResponse)
LIST_MODELS = Method("EmbedService", "ListModels", pb.ListModelsResponse)
LOAD_MODEL = Method("EmbedService", "LoadModel", pb.LoadModelResponse)
UNLOAD_MODEL = Method("EmbedService", "UnloadModel", pb.UnloadModelResponse)

# What the daemon takes by default in one request.
MAX_TEXTS = 16_384
# Bytes of a text in a message beyond its own.
_TEXT_OVERHEAD = 6
# Room for all that is in a message besides texts.
_RESERVED = 4096

#: In what numbers vectors come.
Output: TypeAlias = Literal["f32", "f16", "bf16", "int8", "binary"]
Vectors = TypeVar("Vectors")


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


@dataclass(frozen=True)
class EmbedOutcome(Generic[Vectors]):
    """What became of one batch of a stream."""

    #: Which batch, counted from 0.
    sequence: int
    #: Its vectors; None where it failed.
    vectors: Vectors | None
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
        raise ValueError(f"{prefix.lower()}: expected one of {', '.join(known)}, got {name!r}")
    return enum.Value(f"{prefix}_{name.upper() or 'UNSPECIFIED'}")


def text_input(texts: Sequence[str], what: str = "texts") -> pb.TextInput:
    """Texts in a message. A lone surrogate, half a character, has no UTF-8: the text that has one is named."""
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise TypeError(f"{what}: expected a list of texts, got one {type(texts).__name__}")
    try:
        return pb.TextInput(values=texts)
    except UnicodeEncodeError:
        for at, text in enumerate(texts):
            try:
                text.encode()
            except UnicodeEncodeError as wrong:
                raise ValueError(f"{what}[{at}] has half a character at {wrong.start}, a lone surrogate") from None
        raise
    except TypeError:
        for at, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"{what}[{at}]: expected str, got {type(text).__name__}") from None
        raise


def as_tokens(tokens: Tokens | Sequence[Sequence[int]]) -> Tokens:
    """Token ids, flattened where they are a list of lists."""
    if isinstance(tokens, Tokens):
        ids, offsets = np.asarray(tokens.ids, np.uint32), np.asarray(tokens.offsets, np.uint32)
        if len(offsets) and (offsets[0] != 0 or offsets[-1] != len(ids) or np.any(np.diff(offsets.astype(int)) < 0)):
            raise ValueError(f"tokens.offsets: expected numbers from 0 to {len(ids)} that do not fall, got {offsets}")
        return Tokens(ids, offsets)
    try:
        listed = [np.asarray(one, dtype=np.int64) for one in tokens]
        if all(one.ndim == 1 for one in listed):
            offsets = np.cumsum([0, *map(len, listed)], dtype=np.uint32)
            flat = np.concatenate(listed) if listed else np.zeros(0, np.int64)
            if len(flat) and not 0 <= flat.min() <= flat.max() < 1 << 32:
                raise ValueError(f"tokens: expected ids from 0 to 2**32 - 1, got {flat.min()} to {flat.max()}")
            return Tokens(flat.astype(np.uint32), offsets)
    except (TypeError, OverflowError):
        pass
    raise TypeError(f"tokens: expected Tokens or a list of lists of ids, got {type(tokens).__name__}")


def options_message(output: str, options: EmbedOptions) -> pb.EmbedRequest:
    """A message of all but the input."""
    if unknown := options.keys() - EmbedOptions.__annotations__.keys():
        raise TypeError(f"expected options of EmbedOptions, got {', '.join(sorted(unknown))}")
    made = message(
        pb.EmbedRequest,
        model=options.get("model", ""),
        dimensions=options.get("dimensions", 0),
        pooling=number(pb.Pooling, "POOLING", options.get("pooling", "")),
        prompt_name=options.get("prompt_name", ""),
        prompt=options.get("prompt"),
        truncation_side=number(pb.TruncationSide, "TRUNCATION_SIDE", options.get("truncation_side", "")),
        long_input=number(pb.LongInput, "LONG_INPUT", options.get("long_input", "")),
        max_tokens=options.get("max_tokens", 0),
        output_type=number(pb.OutputType, "OUTPUT_TYPE", output),
        exact_gelu=options.get("exact_gelu", False),
    )
    if (normalize := options.get("normalize")) is not None:
        made.normalize = normalize
    return made


def _spans(options: EmbedOptions, part: Part) -> Iterator[pb.Span]:
    for text, start, end in options.get("spans", ()):
        if part.start <= text < part.stop:
            yield pb.Span(text=text - part.start, start=start, end=end)


def embed(texts: Sequence[str], output: str, options: EmbedOptions, settings: Settings) -> SplitOperation[Any]:
    """Embeds texts, in as many calls as they need."""
    texts = [*text_input(texts).values]
    common = options_message(output, options)
    prompt = len((options.get("prompt") or "").encode())
    limit = settings.max_message_bytes - _RESERVED - prompt

    def operation(part: Part) -> Operation[Any]:
        request = pb.EmbedRequest(texts=text_input(texts[part.start : part.stop]), spans=_spans(options, part))
        request.MergeFrom(common)
        return Operation(EMBED, request, vectors)

    sizes = (_utf8_size(text) + prompt + _TEXT_OVERHEAD for text in texts)
    return SplitOperation(_parts(sizes, len(texts), limit, options), operation, _joined)


def embed_tokens(
    tokens: Tokens | Sequence[Sequence[int]], output: str, options: EmbedOptions, settings: Settings
) -> SplitOperation[Any]:
    """Embeds token ids, in as many calls as they need."""
    ids, offsets = as_tokens(tokens)
    common = options_message(output, options)

    def operation(part: Part) -> Operation[Any]:
        bounds = offsets[part.start : part.stop + 1]
        chosen = ids[bounds[0] : bounds[-1]] if len(bounds) else ids
        listed = pb.TokenInput(ids=chosen.tolist(), offsets=(bounds - bounds[:1]).tolist())
        request = pb.EmbedRequest(tokens=listed, spans=_spans(options, part))
        request.MergeFrom(common)
        return Operation(EMBED, request, vectors)

    # At most five bytes an id, and five an offset.
    sizes = (5 * count + 5 for count in np.diff(offsets.astype(np.int64)).tolist())
    count = max(len(offsets) - 1, 0)
    return SplitOperation(_parts(sizes, count, settings.max_message_bytes - _RESERVED, options), operation, _joined)


def _parts(sizes: Iterable[int], count: int, limit: int, options: EmbedOptions) -> list[Part]:
    """Parts of texts. Spans of texts that do not exist stay in the one part, for the daemon to refuse."""
    parts = parts_by_bytes(sizes, limit, MAX_TEXTS)
    is_outside = any(not 0 <= text < count for text, _, _ in options.get("spans", ()))
    if is_outside:
        raise ValueError(f"spans: expected texts from 0 to {count - 1}, got {[s[0] for s in options['spans']]}")
    if "spans" not in options or len(parts) == 1:
        return parts
    return [part for part in parts if any(part.start <= text < part.stop for text, _, _ in options["spans"])]


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def vectors(answer: pb.EmbedResponse) -> NDArray[Any] | Quantized:
    """The vectors of an answer."""
    rows = to_array(answer.embeddings)
    return Quantized(rows, to_array(answer.scales)) if answer.HasField("scales") else rows


def _joined(done: list[tuple[Any, Any]]) -> Any:
    parts = [rows for _, rows in done]
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Quantized):
        return Quantized(*(np.concatenate([part[at] for part in parts]) for at in range(2)))
    return np.concatenate(parts)


def stream_encoder(output: str, options: EmbedOptions) -> Callable[[int, Sequence[str]], pb.EmbedStreamRequest]:
    """What makes the messages of a stream, of the number of a batch and its texts."""
    common = options_message(output, options)

    def encode(sequence: int, texts: Sequence[str]) -> pb.EmbedStreamRequest:
        request = pb.EmbedRequest(texts=text_input(texts), spans=_spans(options, Part(0, len(texts))))
        request.MergeFrom(common)
        return pb.EmbedStreamRequest(sequence=sequence, embed=request)

    return encode


def outcome(answer: pb.EmbedStreamResponse) -> EmbedOutcome[Any]:
    """What became of a batch."""
    kind = answer.WhichOneof("result")
    if kind == "embed":
        return EmbedOutcome(answer.sequence, vectors(answer.embed), None)
    if kind == "error":
        return EmbedOutcome(answer.sequence, None, from_item(answer.error))
    raise malformed(f"batch {answer.sequence} without an outcome")


def rerank(
    query: str, documents: Sequence[str], model: str, top_n: int, raw_scores: bool, max_tokens: int
) -> Operation[list[Ranked]]:
    """Ranks documents."""
    request = message(
        pb.RerankRequest,
        model=model,
        query=query,
        documents=text_input(documents, "documents"),
        top_n=top_n,
        raw_scores=raw_scores,
        max_tokens=max_tokens,
    )
    return Operation(RERANK, request, lambda answer: [Ranked(one.index, one.score) for one in answer.results])


def tokenize(texts: Sequence[str], model: str) -> Operation[Tokens]:
    """Token ids of texts."""

    def decode(answer: pb.TokenizeResponse) -> Tokens:
        ids, offsets = answer.tokens.ids, answer.tokens.offsets
        return Tokens(np.array(ids, dtype=np.uint32), np.array(offsets, dtype=np.uint32))

    return Operation(TOKENIZE, message(pb.TokenizeRequest, model=model, texts=text_input(texts)), decode)


def list_models() -> Operation[list[Model]]:
    """The loaded models."""
    return Operation(LIST_MODELS, pb.ListModelsRequest(), lambda answer: [model(one) for one in answer.models])


def load_model(name: str, path: str, aliases: Sequence[str], precision: str) -> Operation[Model]:
    """Loads a model."""
    if isinstance(aliases, str):
        raise TypeError("aliases: expected a list of names, got one str")
    request = message(
        pb.LoadModelRequest,
        name=name,
        path=path,
        aliases=aliases,
        precision=number(pb.Precision, "PRECISION", precision),
    )
    return Operation(LOAD_MODEL, request, lambda answer: model(answer.model))


def unload_model(name: str) -> Operation[str]:
    """Forgets a model."""
    return Operation(UNLOAD_MODEL, message(pb.UnloadModelRequest, name=name), lambda answer: str(answer.name))
