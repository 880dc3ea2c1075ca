"""Parsing by the asyncio client."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Literal, overload

from . import _parse
from ._aio_call import AsyncCaller
from ._aio_runtime import Batches, numbered
from ._methods import ParseService
from ._parse import Mode, Parsed, ParseOutcome, Source


class AsyncParseCalls:
    """The calls of the asyncio client that parse Python sources."""

    _caller: AsyncCaller

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
        """Parse batches of sources over one stream. Takes the arguments of `parse`.

        The daemon parses the next batches while the caller builds the trees of the last one. A failed batch does not
        end the stream. After a lost connection, or the drain of a daemon, batches without an outcome are sent again.
        Without a timeout there is no deadline.

        Yields:
            The outcome of each batch in the order of completion.
        """
        stream = _parse.ParseStream(_parse.ParseOptions(outputs, feature_version, mode))
        requests = (stream.request(at, sources) async for at, sources in numbered(batches))
        async for response in self._caller.resumed_stream(ParseService.PARSE_STREAM, requests, timeout):
            yield stream.outcome(response)
