"""The asyncio client."""

from __future__ import annotations

from collections.abc import Sequence

from . import _device
from ._aio_call import AsyncCaller
from ._aio_embed import AsyncEmbedCalls
from ._aio_kernel import AsyncKernelCalls
from ._aio_parse import AsyncParseCalls
from ._aio_similarity import AsyncSimilarityCalls
from ._aio_tensor import AsyncTensorCalls
from ._aio_verify import AsyncVerifyCalls
from ._call import DEFAULT_MESSAGE_BYTES, DEFAULT_TIMEOUT, Settings
from ._credentials import Tls
from ._results import Device, Stats


class AsyncClient(
    AsyncEmbedCalls, AsyncSimilarityCalls, AsyncParseCalls, AsyncTensorCalls, AsyncKernelCalls, AsyncVerifyCalls
):
    """Client of a daemon, over one or more connections.

    A client belongs to one event loop. A pickled client reconnects where it is unpickled. A client that made a call
    before a `fork` raises a RuntimeError in the child process.

    The `timeout` of a call is in seconds, retries included. None means the client's default, infinity or more than a
    year no deadline; NaN and negative numbers raise a ValueError. Only the streams whose length the caller decides,
    `embed_stream`, `parse_stream`, `upsert_many` and `generate_dataset`, have no deadline unless one is given. A call
    that fails raises an `AccelerdError`.
    """

    def __init__(
        self,
        target: str | Sequence[str] | None = None,
        *,
        timeout: float | None = DEFAULT_TIMEOUT,
        attempts: int | None = None,
        max_message_bytes: int = DEFAULT_MESSAGE_BYTES,
        connections: int = 1,
        tls: Tls | bool | None = None,
        token: str | None = None,
        allow_plaintext_token: bool = False,
    ) -> None:
        """Create a client. It connects on the first call.

        Args:
            target: `host:port`, `https://host:port` or `unix:///path`; or several of them, as a list or separated by
                commas, between which calls take turns, without those that cannot be reached. Defaults to the
                environment variable ACCELERD_SERVER, then to localhost:7433.
            timeout: Default timeout of a call in seconds, retries included; None means 60, and infinity or more than a
                year no deadline.
            attempts: Maximum attempts per call; 1 disables retries. By default only the timeout bounds them, and a
                minute where there is none.
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
        self._caller = AsyncCaller(settings)

    @property
    def target(self) -> str:
        """Address of the daemon."""
        return self._caller.settings.target

    def __repr__(self) -> str:
        return f"AsyncClient({self.target!r})"

    async def close(self) -> None:
        """Close the connections. Later calls raise a ValueError."""
        await self._caller.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def devices(self, *, timeout: float | None = None) -> list[Device]:
        """Return the daemon's devices: GPUs first, then the CPU worker pool."""
        return await self._caller.run(_device.list_devices(), timeout)

    async def stats(self, *, timeout: float | None = None) -> Stats:
        """Return statistics of queues, batches, memory pools and kernels since the daemon's start."""
        return await self._caller.run(_device.get_stats(), timeout)
