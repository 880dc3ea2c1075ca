"""Embedding, reranking, tokenization and models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._argument_names import with_arguments
from ._call import Operation, Part, Settings, SplitOperation, parts_by_bytes
from ._choices import LongInput, OutputType, Pooling, Precision, TruncationSide, number
from ._dlpack import refuse_masked
from ._errors import AccelerdError, from_item, malformed, too_large
from ._html import ResultList
from ._message import message
from ._methods import EmbedService
from ._proto import embed_pb2 as pb
from ._results import Model, Ranked, model
from ._tensor import to_array

# The daemon's default limit per request.
MAX_TEXTS = 16_384
# Bytes of a text's field header.
_TEXT_OVERHEAD = 6
# Bytes for the other fields of a message.
_RESERVED = 4096

Vectors = TypeVar("Vectors")
Found = TypeVar("Found")


class EmbedOptions(TypedDict, total=False):
    """Options of an embedding. The defaults are the model's."""

    #: Name or alias of a loaded model; empty means `builtin`.
    model: str
    #: Leading dimensions to keep (Matryoshka embeddings); 0 keeps all.
    dimensions: int
    #: Whether to scale vectors to unit length; None means the model's default.
    normalize: bool | None
    #: "none" gives one vector per token.
    pooling: Pooling
    #: Late chunking: (text index, start byte, end byte) of each span, which has a vector instead of its text.
    spans: Sequence[tuple[int, int, int]]
    #: Name of a prompt of the model, which is prepended to each text.
    prompt_name: str
    #: The prompt itself, instead of its name; empty means none.
    prompt: str | None
    #: The side on which a long text is truncated.
    truncation_side: TruncationSide
    #: How a long text is handled.
    long_input: LongInput
    #: Maximum tokens of a text; 0 means the model's default.
    max_tokens: int
    #: Whether a GPU computes GELU by the error function instead of an approximation.
    exact_gelu: bool


class Tokens(NamedTuple):
    """Token ids of n texts, concatenated."""

    #: uint32, the ids of all texts.
    ids: NDArray[np.uint32]
    #: uint32 [n + 1], where each text starts in `ids`, followed by the length of `ids`.
    offsets: NDArray[np.uint32]


class TokenSpans(NamedTuple):
    """Token ids of n texts, concatenated, and where each token is in its text, in bytes of UTF-8."""

    #: The ids.
    tokens: Tokens
    #: uint32, the start of each token.
    starts: NDArray[np.uint32]
    #: uint32, the end of each token, exclusive; the start for special tokens.
    ends: NDArray[np.uint32]
    #: bool, whether the token is a special one that the model adds to the text.
    special: NDArray[np.bool_]


class Quantized(NamedTuple):
    """int8 vectors: vector i is `scales[i] * values[i]`."""

    #: int8 [vectors, dimensions].
    values: NDArray[np.int8]
    #: float32 [vectors].
    scales: NDArray[np.float32]


@dataclass(frozen=True)
class EmbedOutcome(Generic[Vectors]):
    """Outcome of one batch of a stream."""

    #: Index of the batch.
    sequence: int
    #: The vectors; None if the batch failed.
    vectors: Vectors | None
    #: Why the batch failed; None if it did not.
    error: AccelerdError | None


def text_input(texts: Sequence[str], what: str = "texts") -> pb.TextInput:
    """Return the message of texts. Raises for a text with a lone surrogate, which has no UTF-8 encoding."""
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise TypeError(f"{what}: expected a list of texts, got {type(texts).__name__}")
    try:
        return pb.TextInput(values=texts)
    except UnicodeEncodeError:
        for at, text in enumerate(texts):
            try:
                text.encode()
            except UnicodeEncodeError as wrong:
                raise ValueError(f"{what}[{at}]: lone surrogate at index {wrong.start}") from None
        raise
    except TypeError:
        for at, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"{what}[{at}]: expected str, got {type(text).__name__}") from None
        raise


def as_tokens(tokens: Tokens | Sequence[Sequence[int]]) -> Tokens:
    """Return token ids as arrays."""
    if isinstance(tokens, Tokens):
        ids, offsets = np.asarray(tokens.ids, np.uint32), np.asarray(tokens.offsets, np.uint32)
        if len(offsets) and (offsets[0] != 0 or offsets[-1] != len(ids) or np.any(np.diff(offsets.astype(int)) < 0)):
            raise ValueError(f"tokens.offsets: expected non-decreasing numbers from 0 to {len(ids)}, got {offsets}")
        return Tokens(ids, offsets)
    refuse_masked(tokens, "tokens")
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


def options_message(output: OutputType, options: EmbedOptions) -> pb.EmbedRequest:
    """Return the message of everything but the input."""
    if unknown := options.keys() - EmbedOptions.__annotations__.keys():
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
    made = message(
        pb.EmbedRequest,
        model=options.get("model", ""),
        dimensions=options.get("dimensions", 0),
        pooling=number("pooling", pb.Pooling, "POOLING", Pooling, options.get("pooling", "")),
        prompt_name=options.get("prompt_name", ""),
        prompt=options.get("prompt"),
        truncation_side=number(
            "truncation_side",
            pb.TruncationSide,
            "TRUNCATION_SIDE",
            TruncationSide,
            options.get("truncation_side", ""),
        ),
        long_input=number("long_input", pb.LongInput, "LONG_INPUT", LongInput, options.get("long_input", "")),
        max_tokens=options.get("max_tokens", 0),
        output_type=number("output", pb.OutputType, "OUTPUT_TYPE", OutputType, output),
        exact_gelu=options.get("exact_gelu", False),
    )
    if (normalize := options.get("normalize")) is not None:
        if not isinstance(normalize, (bool, np.bool_)):
            raise TypeError(f"normalize: expected a bool or None, got {type(normalize).__name__}")
        made.normalize = bool(normalize)
    _check_spans(options.get("spans", ()))
    return made


def _check_spans(spans: Any) -> None:
    for at, span in enumerate(spans):
        if len(span) != 3:
            raise ValueError(f"spans[{at}]: expected the index of a text, a start and an end, got {span!r}")
        text, start, end = span
        fields = dict.fromkeys(("text", "start", "end"), f"spans[{at}]")
        message(pb.Span, fields, text=text, start=start, end=end)


def _spans(options: EmbedOptions, part: Part) -> Iterator[pb.Span]:
    for text, start, end in options.get("spans", ()):
        if part.start <= text < part.stop:
            yield pb.Span(text=text - part.start, start=start, end=end)


def embed(texts: Sequence[str], output: OutputType, options: EmbedOptions, settings: Settings) -> SplitOperation[Any]:
    """Embed texts, in several calls if they exceed a message. No texts have those of one text, without its row."""
    texts = [*text_input(texts).values]
    is_empty = not texts
    texts = texts or [""]
    common = options_message(output, options)
    prompt = len((options.get("prompt") or "").encode())
    limit = settings.max_message_bytes - _RESERVED - prompt

    def operation(part: Part) -> Operation[Any]:
        request = pb.EmbedRequest(texts=text_input(texts[part.start : part.stop]), spans=_spans(options, part))
        request.MergeFrom(common)
        return Operation(EmbedService.EMBED, request, vectors)

    sizes = (_utf8_size(text) + prompt + _TEXT_OVERHEAD for text in texts)
    parts = _parts(sizes, 0 if is_empty else len(texts), limit, options)
    return SplitOperation(parts, operation, _none_joined if is_empty else _joined, "texts were embedded", "texts")


def embed_tokens(
    tokens: Tokens | Sequence[Sequence[int]], output: OutputType, options: EmbedOptions, settings: Settings
) -> SplitOperation[Any]:
    """Embed token ids, in several calls if they exceed a message. No texts are embedded as by `embed`."""
    ids, offsets = as_tokens(tokens)
    is_empty = len(offsets) < 2
    if is_empty:
        ids, offsets = Tokens(np.zeros(1, np.uint32), np.array([0, 1], np.uint32))
    common = options_message(output, options)

    def operation(part: Part) -> Operation[Any]:
        bounds = offsets[part.start : part.stop + 1]
        chosen = ids[bounds[0] : bounds[-1]]
        listed = pb.TokenInput(ids=chosen.tolist(), offsets=(bounds - bounds[:1]).tolist())
        request = pb.EmbedRequest(tokens=listed, spans=_spans(options, part))
        request.MergeFrom(common)
        return Operation(EmbedService.EMBED, request, vectors)

    # At most five bytes per id, and five per offset.
    sizes = (5 * count + 5 for count in np.diff(offsets.astype(np.int64)).tolist())
    count = 0 if is_empty else len(offsets) - 1
    parts = _parts(sizes, count, settings.max_message_bytes - _RESERVED, options)
    return SplitOperation(parts, operation, _none_joined if is_empty else _joined, "texts were embedded", "tokens")


def _parts(sizes: Iterable[int], count: int, limit: int, options: EmbedOptions) -> list[Part]:
    """Split texts into parts; with spans, those parts that have any."""
    parts = parts_by_bytes(sizes, limit, MAX_TEXTS)
    is_outside = any(not 0 <= text < count for text, _, _ in options.get("spans", ()))
    if is_outside:
        expected = f"texts from 0 to {count - 1}" if count else "none without texts"
        raise ValueError(f"spans: expected {expected}, got {[s[0] for s in options['spans']]}")
    if "spans" not in options or len(parts) == 1:
        return parts
    return [part for part in parts if any(part.start <= text < part.stop for text, _, _ in options["spans"])]


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def vectors(response: pb.EmbedResponse) -> NDArray[Any] | Quantized:
    """Return the vectors of a response."""
    rows = to_array(response.embeddings)
    return Quantized(rows, to_array(response.scales)) if response.HasField("scales") else rows


def _none_of(rows: Any) -> Any:
    """Return no rows, of the shape and type of others."""
    return Quantized(rows.values[:0], rows.scales[:0]) if isinstance(rows, Quantized) else rows[:0]


def _none_joined(done: list[tuple[Any, Any]]) -> Any:
    return _none_of(_joined(done))


def _joined(done: list[tuple[Any, Any]]) -> Any:
    parts = [rows for _, rows in done]
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Quantized):
        return Quantized(*(np.concatenate([part[at] for part in parts]) for at in range(2)))
    return np.concatenate(parts)


def stream_encoder(output: OutputType, options: EmbedOptions) -> Callable[[int, Sequence[str]], pb.EmbedStreamRequest]:
    """Return a function from the index and the texts of a batch to its message."""
    common = options_message(output, options)

    def encode(sequence: int, texts: Sequence[str]) -> pb.EmbedStreamRequest:
        request = pb.EmbedRequest(texts=text_input(texts), spans=_spans(options, Part(0, len(texts))))
        request.MergeFrom(common)
        return pb.EmbedStreamRequest(sequence=sequence, embed=request)

    return encode


def outcome(response: pb.EmbedStreamResponse) -> EmbedOutcome[Any]:
    """Return the outcome of a batch."""
    kind = response.WhichOneof("result")
    if kind == "embed":
        return EmbedOutcome(response.sequence, vectors(response.embed), None)
    if kind == "error":
        problem = with_arguments(from_item(response.error), EmbedService.EMBED_STREAM.name)
        return EmbedOutcome(response.sequence, None, problem)
    raise malformed(f"no result of batch {response.sequence}")


def rerank(
    query: str,
    documents: Sequence[str],
    model: str,
    top_n: int,
    raw_scores: bool,
    max_tokens: int,
    settings: Settings,
) -> SplitOperation[list[Ranked]]:
    """Rank documents, in several calls if they exceed a message."""
    texts = [*text_input(documents, "documents").values]
    common = message(
        pb.RerankRequest,
        model=model,
        query=query,
        top_n=top_n,
        raw_scores=raw_scores,
        max_tokens=max_tokens,
    )
    if common.ByteSize() > settings.max_message_bytes:
        raise too_large("query", common.ByteSize(), settings.max_message_bytes)

    def operation(part: Part) -> Operation[list[Ranked]]:
        request = pb.RerankRequest(documents=pb.TextInput(values=texts[part.start : part.stop]))
        request.MergeFrom(common)
        return Operation(EmbedService.RERANK, request, lambda response: _ranked(response, part.start))

    parts = _text_parts(texts, settings.max_message_bytes - _RESERVED - common.ByteSize())
    return SplitOperation(
        parts, operation, lambda done: _best(done, top_n), "documents were ranked", argument="documents"
    )


def _ranked(response: pb.RerankResponse, first: int) -> list[Ranked]:
    return [Ranked(first + one.index, one.score) for one in response.results]


def _best(done: list[tuple[Any, list[Ranked]]], top_n: int) -> list[Ranked]:
    """Merge ranked parts. Of equal scores the lower index comes first, as in one call."""
    ranked = [one for _, part in done for one in part]
    if len(done) > 1:
        ranked.sort(key=lambda one: -one.score)
    return ResultList(ranked[: top_n or None])


def tokenize(texts: Sequence[str], model: str, settings: Settings) -> SplitOperation[Tokens]:
    """Convert texts to token ids, in several calls if they exceed a message."""
    request = message(pb.TokenizeRequest, model=model)
    return _split_tokenize(texts, request, _tokens, _concatenated, settings)


def token_spans(texts: Sequence[str], model: str, settings: Settings) -> SplitOperation[TokenSpans]:
    """Convert texts to token ids with their spans, in several calls if they exceed a message."""

    def decode(response: pb.TokenizeResponse) -> TokenSpans:
        starts, ends = (np.array(one, dtype=np.uint32) for one in (response.starts, response.ends))
        return TokenSpans(_tokens(response), starts, ends, np.array(response.special, dtype=np.bool_))

    def concatenate(done: list[tuple[Any, TokenSpans]]) -> TokenSpans:
        tokens = _concatenated([(part, spans.tokens) for part, spans in done])
        spans = zip(*((one.starts, one.ends, one.special) for _, one in done), strict=True)
        starts, ends, special = (np.concatenate(one) for one in spans) if done else np.zeros((3, 0), np.uint32)
        return TokenSpans(tokens, starts, ends, special.astype(np.bool_))

    request = message(pb.TokenizeRequest, model=model, with_spans=True)
    return _split_tokenize(texts, request, decode, concatenate, settings)


def _split_tokenize(
    texts: Sequence[str],
    common: pb.TokenizeRequest,
    decode: Callable[[pb.TokenizeResponse], Found],
    concatenate: Callable[[list[tuple[Any, Found]]], Found],
    settings: Settings,
) -> SplitOperation[Found]:
    texts = [*text_input(texts).values]

    def operation(part: Part) -> Operation[Found]:
        request = pb.TokenizeRequest(texts=pb.TextInput(values=texts[part.start : part.stop]))
        request.MergeFrom(common)
        return Operation(EmbedService.TOKENIZE, request, decode)

    parts = _text_parts(texts, settings.max_message_bytes - _RESERVED)
    return SplitOperation(parts, operation, concatenate, "texts were tokenized", "texts")


def _tokens(response: pb.TokenizeResponse) -> Tokens:
    ids, offsets = response.tokens.ids, response.tokens.offsets
    return Tokens(np.array(ids, dtype=np.uint32), np.array(offsets, dtype=np.uint32))


def _text_parts(texts: Sequence[str], limit: int) -> list[Part]:
    sizes = (_utf8_size(text) + _TEXT_OVERHEAD for text in texts)
    return parts_by_bytes(sizes, limit, MAX_TEXTS) if texts else []


def _concatenated(done: list[tuple[Any, Tokens]]) -> Tokens:
    found = [tokens for _, tokens in done]
    ids = np.concatenate([np.zeros(0, np.uint32), *(tokens.ids for tokens in found)])
    counts = np.concatenate([np.zeros(1, np.uint32), *(np.diff(tokens.offsets) for tokens in found)])
    return Tokens(ids, np.cumsum(counts, dtype=np.uint32))


def list_models() -> Operation[list[Model]]:
    """List the loaded models."""
    return Operation(
        EmbedService.LIST_MODELS,
        pb.ListModelsRequest(),
        lambda response: ResultList(model(one) for one in response.models),
    )


def load_model(name: str, path: str, aliases: Sequence[str], precision: Precision) -> Operation[Model]:
    """Load a model."""
    if isinstance(aliases, str):
        raise TypeError("aliases: expected a list of names, got str")
    request = message(
        pb.LoadModelRequest,
        name=name,
        path=path,
        aliases=aliases,
        precision=number("precision", pb.Precision, "PRECISION", Precision, precision),
    )
    return Operation(EmbedService.LOAD_MODEL, request, lambda response: model(response.model))


def unload_model(name: str) -> Operation[str]:
    """Unload a model."""
    return Operation(
        EmbedService.UNLOAD_MODEL, message(pb.UnloadModelRequest, name=name), lambda response: str(response.name)
    )
