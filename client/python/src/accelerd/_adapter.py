"""What the adapters of other libraries share: clients, embedding and ranking."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ._aio_call import AsyncCaller
from ._aio_client import AsyncClient
from ._aio_documents import AsyncDocuments
from ._blocking_client import Client
from ._blocking_documents import Documents
from ._documents_settings import DocumentSettings
from ._results import Ranked

T = TypeVar("T")


class Clients:
    """A blocking client, and an asyncio client with its settings for each event loop."""

    def __init__(self, client: Client | str | None = None) -> None:
        self.blocking = client if isinstance(client, Client) else Client(client)
        self._lock = threading.Lock()
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        return Clients, (self.blocking,)

    @property
    def asyncio(self) -> AsyncClient:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        # Each thread may run a loop.
        with self._lock:
            for closed in [one for one in self._of_loops if one.is_closed()]:
                del self._of_loops[closed]
            if loop not in self._of_loops:
                client = AsyncClient.__new__(AsyncClient)
                client._caller = AsyncCaller(self.blocking._caller.settings)
                self._of_loops[loop] = client
            return self._of_loops[loop]

    def documents(self, settings: DocumentSettings) -> Documents:
        """Return the documents of a collection."""
        return Documents(self.blocking, settings)

    def async_documents(self, settings: DocumentSettings) -> AsyncDocuments:
        """Return the documents of a collection for the running event loop."""
        return AsyncDocuments(self.asyncio, settings)


class Embedder:
    """Embeds documents and queries, each with its own prompt."""

    def __init__(
        self, clients: Clients, options: dict[str, Any], document: dict[str, Any], query: dict[str, Any]
    ) -> None:
        self._clients = clients
        self._document, self._query = {**options, **_given(document)}, {**options, **_given(query)}

    def documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed documents."""
        return _lists(self._clients.blocking.embed(texts, **self._document))

    async def documents_async(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed documents."""
        return _lists(await self._clients.asyncio.embed(texts, **self._document))

    def query(self, text: str) -> list[float]:
        """Embed a query."""
        return _lists(self._clients.blocking.embed([text], **self._query))[0]

    async def query_async(self, text: str) -> list[float]:
        """Embed a query."""
        return _lists(await self._clients.asyncio.embed([text], **self._query))[0]


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _lists(vectors: Any) -> list[list[float]]:
    found: list[list[float]] = vectors.tolist()
    return found


def ranked(items: Sequence[T], ranks: Sequence[Ranked]) -> list[tuple[T, float]]:
    """Return items with their scores, best first."""
    return [(items[rank.index], rank.score) for rank in ranks]


def relevance(score: float, metric: str) -> float:
    """Return a score for which higher is better: from 0 to 1 for unit vectors, and for squared distances."""
    return 1 / (1 + score) if metric == "squared_l2" else (1 + score) / 2
