"""What a tensor of the asyncio client converts to. `_blocking_conversions` has the same for the blocking client."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NoReturn

from numpy.typing import NDArray

from ._tensor_operators import TensorOperators


class Conversions(TensorOperators):
    """The conversions of a tensor, which is computed by `await` only."""

    __slots__ = ()

    if TYPE_CHECKING:

        async def numpy(self) -> NDArray[Any]: ...

    def __await__(self) -> Generator[Any, None, NDArray[Any]]:
        return self.numpy().__await__()

    # Without these, a tensor would be true, and an array of one object.
    def __bool__(self) -> NoReturn:
        raise TypeError("the truth of an AsyncTensor is not known before `await tensor`")

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        raise TypeError("an AsyncTensor becomes an array by `await tensor`")
