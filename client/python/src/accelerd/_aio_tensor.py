"""Lazy tensors of the asyncio client."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NoReturn, cast

from numpy.typing import NDArray

from ._lazy import GraphOutputs, LazyTensor

if TYPE_CHECKING:
    from .aio import AsyncClient


class AsyncTensor(LazyTensor):
    """A lazy tensor of an `AsyncClient`: `await tensor` computes it in one call and returns a numpy array.

    The result is kept, and later operations start from it.
    """

    __slots__ = ()

    async def numpy(self, *, timeout: float | None = None) -> NDArray[Any]:
        """Compute the tensor in one call, unless that is done already.

        Args:
            timeout: Seconds for the whole call, retries included.

        Returns:
            A read-only array; bfloat16 becomes float32.
        """
        return (await cast("AsyncClient", self._client).execute(self, timeout=timeout))[0]

    async def keep(self, *, device: str = "", ttl: float | None = None, timeout: float | None = None) -> AsyncTensor:
        """Compute the tensor, and keep it on the daemon; return it. As `AsyncClient.keep()`."""
        return (await cast("AsyncClient", self._client).keep(self, device=device, ttl=ttl, timeout=timeout))[0]

    async def free(self, *, timeout: float | None = None) -> None:
        """Free the tensor, which is resident."""
        await cast("AsyncClient", self._client).free(self, timeout=timeout)

    async def __aenter__(self) -> AsyncTensor:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Free the tensor if it is resident."""
        if self.resident is not None:
            await self.free()

    def __await__(self) -> Generator[Any, None, NDArray[Any]]:
        return self.numpy().__await__()

    # Without these, a tensor would be true, and an array of one object.
    def __bool__(self) -> NoReturn:
        raise TypeError("the truth of an AsyncTensor is not known before `await tensor`")

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        raise TypeError("an AsyncTensor becomes an array by `await tensor`")


class AsyncGraph(GraphOutputs["AsyncClient", AsyncTensor]):
    """The outputs of an `async with` block, which one call computes at its end."""

    async def __aenter__(self) -> AsyncGraph:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self._client.execute(*self._outputs, data_parallel=self.data_parallel, timeout=self._timeout)
