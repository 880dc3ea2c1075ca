"""What a tensor of the asyncio client converts to. `_blocking_conversions` has the same for the blocking client."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from numpy.typing import NDArray

from ._expression import type_of
from ._lazy import extent, formatted
from ._tensor import Value
from ._tensor_operators import TensorOperators

if TYPE_CHECKING:
    from typing_extensions import Self  # In typing since Python 3.11.


class Conversions(TensorOperators):
    """The conversions of a tensor, which is computed by `await` only."""

    __slots__ = ()

    if TYPE_CHECKING:

        async def numpy(self, *, bfloat16: bool = False) -> NDArray[Any]: ...

    def __await__(self) -> Generator[Any, None, NDArray[Any]]:
        return self.numpy().__await__()

    def __len__(self) -> int:
        return extent(type_of(self._expression))

    def __iter__(self) -> Iterator[Self]:
        for at in range(len(self)):
            yield self[at]

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError("the elements of an AsyncTensor are not known before `await tensor`")

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if isinstance(content := self._expression.content, Value):
            return formatted(content.numpy(), spec)
        raise TypeError(f"format {spec!r}: the elements of an AsyncTensor are not known before `await tensor`")

    # Without these, a tensor would be true, and an array of one object.
    def __bool__(self) -> NoReturn:
        raise TypeError("the truth of an AsyncTensor is not known before `await tensor`")

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        raise TypeError("an AsyncTensor becomes an array by `await tensor`")
