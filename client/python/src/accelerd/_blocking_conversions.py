"""What a tensor of the blocking client converts to. `_aio_conversions` has the same for the asyncio client."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import DTypeLike, NDArray

from ._dlpack import HOST, export
from ._expression import Expression, type_of
from ._lazy import DEFAULT_DEVICE, extent, formatted
from ._tensor import Value, is_bfloat16
from ._tensor_operators import TensorOperators

if TYPE_CHECKING:
    from typing_extensions import Self  # In typing since Python 3.11.


class Conversions(TensorOperators):
    """The conversions of a tensor, each of which computes it."""

    __slots__ = ()

    _client: Any
    _computes_on_demand: ClassVar[bool] = True

    if TYPE_CHECKING:

        def numpy(self, *, bfloat16: bool = False) -> NDArray[Any]: ...

        def keep(self, *, device: str) -> Self: ...

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy(bfloat16=dtype is not None and is_bfloat16(dtype))
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
        """Compute the tensor and export its elements in host memory, without a copy since DLPack 1.0."""
        return export(self.numpy(), stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device that `__dlpack__` exports to: the memory of the host."""
        return HOST

    def to_device(self, device: str, /, *, stream: Any = None) -> Self:
        """Return the tensor on a device; this tensor, if it is there already.

        Args:
            device: A device of the daemon, such as "cuda:0", on which the tensor is computed and kept; or "default" for
                a tensor that is not resident, whose elements are downloaded.
            stream: None; a stream of the caller is not supported.

        Raises:
            ValueError: `stream` is not None.
        """
        if stream is not None:
            raise ValueError(f"stream: expected None, got {stream!r}")
        if device == self.device:
            return self
        if device == DEFAULT_DEVICE:
            return self._of(Expression(Value.of(self.numpy())))
        if self.resident is not None:
            copied: Self = self._client.copy(self, device)
            return copied
        return self._of(Expression(self._expression.content)).keep(device=device)

    def __len__(self) -> int:
        return extent(type_of(self._expression) or self._value().type)

    def __iter__(self) -> Iterator[Self]:
        """Compute the tensor, and iterate over its elements along the first dimension."""
        value = self._value()
        for at in range(extent(value.type)):
            yield self._of(Expression(Value(value.number, value.array[at, ...])))

    def __contains__(self, value: Any) -> bool:
        return bool((self.numpy() == (value.numpy() if isinstance(value, Conversions) else value)).any())

    def __format__(self, spec: str) -> str:
        return formatted(self.numpy(), spec) if spec else str(self)

    def _value(self) -> Value:
        """Compute the tensor."""
        array = self.numpy()
        content = self._expression.content
        return content if isinstance(content, Value) else Value.of(array)

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
