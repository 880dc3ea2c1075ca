"""Lazy tensors of the blocking client."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import DTypeLike, NDArray

from ._dlpack import HOST, export
from ._expression import Expression
from ._lazy import DEFAULT_DEVICE, GraphOutputs, LazyTensor
from ._tensor import Value

if TYPE_CHECKING:
    from ._client import Client


class Tensor(LazyTensor):
    """A lazy tensor of a `Client`.

    `numpy()`, `float()`, `int()`, `bool()` and `numpy.asarray()` compute it: one call runs all operations that it
    needs. The result is kept, and later operations start from it.
    """

    __slots__ = ()

    def numpy(self, *, timeout: float | None = None) -> NDArray[Any]:
        """Compute the tensor in one call, unless that is done already.

        Args:
            timeout: Seconds for the whole call, retries included.

        Returns:
            A read-only array; bfloat16 becomes float32.
        """
        return cast("Client", self._client).execute(self, timeout=timeout)[0]

    def keep(self, *, device: str = "", ttl: float | None = None, timeout: float | None = None) -> Tensor:
        """Compute the tensor, and keep it on the daemon; return it. As `Client.keep()`."""
        return cast("Client", self._client).keep(self, device=device, ttl=ttl, timeout=timeout)[0]

    def free(self, *, timeout: float | None = None) -> None:
        """Free the tensor, which is resident."""
        cast("Client", self._client).free(self, timeout=timeout)

    def __enter__(self) -> Tensor:
        return self

    def __exit__(self, *_: object) -> None:
        """Free the tensor if it is resident."""
        if self.resident is not None:
            self.free()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"copy: expected None or True to convert {array.dtype} to {dtype}, got False")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Compute the tensor and export its elements in the memory of the host, without a copy since DLPack 1.0."""
        return export(self.numpy(), stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return where `__dlpack__` exports to: the memory of the host."""
        return HOST

    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """Return the tensor on a device, this one if it is there: computed, and resident on a device of the daemon.

        Args:
            device: "cuda:0", for example; "default" for a tensor that is not resident, whose elements are here.
            stream: None.
        """
        if stream is not None:
            raise ValueError(f"stream: expected None, got {stream!r}")
        if device == self.device:
            return self
        if device == DEFAULT_DEVICE:
            return self._of(Expression(Value.of(self.numpy())))
        if self.resident is not None:
            return cast("Client", self._client).copy(self, device)
        return self._of(Expression(self._expression.content)).keep(device=device)

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __complex__(self) -> complex:
        return complex(self.numpy())

    def __index__(self) -> int:
        return operator.index(self.numpy()[()])


class Graph(GraphOutputs["Client", Tensor]):
    """The outputs of a `with` block, which one call computes at its end."""

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._client.execute(*self._outputs, data_parallel=self.data_parallel, timeout=self._timeout)
