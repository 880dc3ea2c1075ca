# Generated from _aio_embed.py by generate.py; do not edit.
"""Embeddings and models of the blocking client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from . import _embed
from ._blocking_call import Caller
from ._blocking_runtime import numbered
from ._choices import OutputType, Precision
from ._embed import EmbedOptions, EmbedOutcome, Quantized, Tokens, TokenSpans
from ._methods import EmbedService
from ._results import Model, Ranked

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.


class EmbedCalls:
    """The calls of the blocking client that embed, rank and tokenize texts, and manage models."""

    _caller: Caller

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
        output: OutputType,
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any] | Quantized: ...

    def embed(
        self,
        texts: Sequence[str],
        *,
        output: OutputType = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any] | Quantized:
        """Embed texts.

        Args:
            texts: The texts; none give [0, dimensions].
            output: Element type of the vectors: "f32", "f16", "bf16" (returned as float32), "int8" (a `Quantized`) or
                "binary" (uint8, one bit per dimension, most significant bit first).
            timeout: Seconds for the whole call, retries included.
            **options: See `EmbedOptions`. The defaults are the model's.

        Returns:
            One vector per text, [texts, dimensions]; [texts, ceil(dimensions / 8)] for "binary". The option
            `spans` gives one vector per span instead, and the pooling "none" one per token.
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
        output: OutputType,
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any] | Quantized: ...

    def embed_tokens(
        self,
        tokens: Tokens | Sequence[Sequence[int]],
        *,
        output: OutputType = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any] | Quantized:
        """Embed token ids: those of `tokenize`, or a list of lists. Options and results are those of `embed`."""
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
        output: OutputType,
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Iterator[EmbedOutcome[NDArray[Any] | Quantized]]: ...

    def embed_stream(
        self,
        batches: Iterable[Sequence[str]],
        *,
        output: OutputType = "f32",
        timeout: float | None = None,
        **options: Unpack[EmbedOptions],
    ) -> Iterator[EmbedOutcome[Any]]:
        """Embed batches of texts over one stream. Takes the options of `embed`.

        A failed batch does not end the stream. After a lost connection, or the drain of a daemon, batches without an
        outcome are sent again. Without a timeout there is no deadline.

        Yields:
            The outcome of each batch in the order of completion.
        """
        encode = _embed.stream_encoder(output, options)
        requests = (encode(at, texts) for at, texts in numbered(batches))
        for response in self._caller.resumed_stream(EmbedService.EMBED_STREAM, requests, timeout):
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
        settings = self._caller.settings
        split = _embed.rerank(query, documents, model, top_n, raw_scores, max_tokens, settings)
        return self._caller.run_split(split, timeout)

    def load_model(
        self,
        name: str,
        path: str,
        *,
        aliases: Sequence[str] = (),
        precision: Precision = "",
        timeout: float | None = None,
    ) -> Model:
        """Load a model.

        Args:
            name: Name of the model in calls.
            path: A folder or file on the daemon's machine, or `hf://owner/name[@revision]` for a model that the daemon
                downloads from its hub.
            aliases: Other names of the model in calls.
            precision: "bf16", "f16" or "f32"; empty means bf16 on a GPU and f32 on a CPU.
            timeout: Seconds for the whole call, retries included.

        Returns:
            The model, which has embedded a first text.

        Raises:
            AlreadyExistsError: The name or an alias is taken.
            InvalidArgumentError: The name is invalid, or the model cannot be loaded; the message names the file or
                tensor.
            NotFoundError: The hub has no such model or revision.
            PermissionDeniedError: The daemon's settings do not allow the path or the download.
        """
        return self._caller.run(_embed.load_model(name, path, aliases, precision), timeout)

    def unload_model(self, name: str, *, timeout: float | None = None) -> str:
        """Unload a model, by name or alias. Returns its name. Calls in flight complete first."""
        return self._caller.run(_embed.unload_model(name), timeout)

    def tokenize(self, texts: Sequence[str], *, model: str = "", timeout: float | None = None) -> Tokens:
        """Convert texts to the token ids of a model."""
        return self._caller.run_split(_embed.tokenize(texts, model, self._caller.settings), timeout)

    def token_spans(self, texts: Sequence[str], *, model: str = "", timeout: float | None = None) -> TokenSpans:
        """Convert texts to the token ids of a model, with where each token is in its text."""
        return self._caller.run_split(_embed.token_spans(texts, model, self._caller.settings), timeout)

    def models(self, *, timeout: float | None = None) -> list[Model]:
        """Return the loaded models, sorted by name."""
        return self._caller.run(_embed.list_models(), timeout)
