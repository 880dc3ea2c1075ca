"""Functions that make tensors."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from .._dlpack import host_array, refuse_masked
from .._expression import Attribute
from .._lazy import Array, LazyTensor, Scalar, T, is_array
from .._tensor import Dtype, public_dtype
from .._types import broadcast
from ._elementwise import Elementwise
from ._namespace import expect_default, listed, typed


class Creation(Elementwise[T]):
    """Functions that make tensors. Generators run in the daemon; nothing but their arguments is sent."""

    __slots__ = ()

    def asarray(
        self,
        obj: ArrayLike | LazyTensor,
        /,
        *,
        dtype: Dtype | None = None,
        device: str | None = None,
        copy: builtins.bool | None = None,
    ) -> T:
        """Return a tensor of an array, a number, or nested lists of numbers.

        Floating-point numbers of Python become float32 unless `dtype` says otherwise. Without a copy, later changes of
        an array may change the tensor.

        Raises:
            ValueError: `copy` is False, and a list or another element type needs a copy.
            BufferError: The array is in the memory of a GPU.
        """
        expect_default(device)
        if isinstance(obj, LazyTensor):
            tensor = self._client.tensor(obj, dtype=dtype)
            if copy or (dtype is not None and self.result_type(obj) != self.result_type(dtype)):
                if copy is False:
                    raise ValueError(f"copy: expected None or True to convert to {dtype}, got False")
                return tensor
            # The same tensor, so that an assignment to it changes both.
            return cast("T", obj)
        array = host_array(obj, "obj")
        is_python = not hasattr(obj, "__array__") and not hasattr(obj, "__dlpack__") and not _has_buffer(obj)
        if is_python and dtype is None and array.dtype == np.float64:
            dtype = np.float32
        tensor = self._client.tensor(obj if is_python else np.array(array) if copy else array, dtype=dtype)
        if copy is False and (is_python or tensor.dtype != array.dtype or not array.flags.c_contiguous):
            raise ValueError(f"copy: expected None or True to read {type(obj).__name__}, got False")
        return tensor

    def from_dlpack(self, x: object, /, *, device: str | None = None, copy: builtins.bool | None = None) -> T:
        """Return a tensor of an array of another library in the memory of the host, without a copy unless asked.

        Raises:
            BufferError: The array is in the memory of a GPU.
            TypeError: The object has no `__dlpack__`.
        """
        expect_default(device)
        if isinstance(x, LazyTensor) and x._client is self._client:
            return self._client.tensor(x)
        if not hasattr(x, "__dlpack__"):
            raise TypeError(f"x: expected an object with __dlpack__, got {type(x).__name__}")
        array = host_array(x, "x")
        return self._client.tensor(np.array(array) if copy else array)

    def full(
        self,
        shape: int | Sequence[int],
        fill_value: Scalar | Array,
        *,
        dtype: Dtype | None = None,
        device: str | None = None,
    ) -> T:
        """Return a tensor of equal elements. The type of the number decides theirs unless `dtype` does."""
        expect_default(device)
        is_large = isinstance(fill_value, int) and fill_value >= 1 << 63
        if isinstance(fill_value, (builtins.bool, int, float)) and not is_array(fill_value) and not is_large:
            return self._client.op("full", shape=listed(shape), value=fill_value, **typed(dtype))
        # A scalar tensor, or an integer that no attribute holds.
        refuse_masked(fill_value, "fill_value")
        value = fill_value if isinstance(fill_value, LazyTensor) else np.asarray(fill_value)
        return self.broadcast_to(self._client.tensor(value, dtype=dtype), listed(shape))

    def zeros(self, shape: int | Sequence[int], *, dtype: Dtype | None = None, device: str | None = None) -> T:
        """Return a tensor of zeros."""
        return self.full(shape, 0.0, dtype=dtype, device=device)

    def ones(self, shape: int | Sequence[int], *, dtype: Dtype | None = None, device: str | None = None) -> T:
        """Return a tensor of ones."""
        return self.full(shape, 1.0, dtype=dtype, device=device)

    def empty(self, shape: int | Sequence[int], *, dtype: Dtype | None = None, device: str | None = None) -> T:
        """Return a tensor whose elements do not matter: zeros."""
        return self.zeros(shape, dtype=dtype, device=device)

    def full_like(self, x: Array, /, fill_value: Scalar, *, dtype: Dtype | None = None, device: str | None = None) -> T:
        """Return a tensor of equal elements in the shape of `x`, and of its element type unless `dtype` is given."""
        found = self._type(x)
        return self.full(
            found.shape, fill_value, dtype=public_dtype(found.dtype) if dtype is None else dtype, device=device
        )

    def zeros_like(self, x: Array, /, *, dtype: Dtype | None = None, device: str | None = None) -> T:
        """Return zeros in the shape of `x`."""
        return self.full_like(x, 0.0, dtype=dtype, device=device)

    def ones_like(self, x: Array, /, *, dtype: Dtype | None = None, device: str | None = None) -> T:
        """Return ones in the shape of `x`."""
        return self.full_like(x, 1.0, dtype=dtype, device=device)

    def empty_like(self, x: Array, /, *, dtype: Dtype | None = None, device: str | None = None) -> T:
        """Return a tensor in the shape of `x` whose elements do not matter: zeros."""
        return self.zeros_like(x, dtype=dtype, device=device)

    def imag(self, x: Array, /) -> T:
        """Return the imaginary parts of real numbers, which are 0."""
        return self.zeros_like(x)

    def arange(
        self,
        start: float,
        /,
        stop: float | None = None,
        step: float = 1,
        *,
        dtype: Dtype | None = None,
        device: str | None = None,
    ) -> T:
        """Return the numbers from `start`, by default 0, to `stop`, which is excluded."""
        expect_default(device)
        first, end = (0, start) if stop is None else (start, stop)
        return self._client.op("arange", start=first, end=end, step=step, **typed(dtype))

    def linspace(
        self,
        start: float,
        stop: float,
        /,
        num: int,
        *,
        dtype: Dtype | None = None,
        device: str | None = None,
        endpoint: builtins.bool = True,
    ) -> T:
        """Return `num` evenly spaced numbers from `start` to `stop`, which is excluded unless `endpoint` is true."""
        expect_default(device)
        if not endpoint:
            return self.linspace(start, stop, num + 1, dtype=dtype)._view(slice(num))
        return self._client.op("linspace", start=start, end=stop, steps=num, **typed(dtype))

    def eye(
        self,
        n_rows: int,
        n_cols: int | None = None,
        /,
        *,
        k: int = 0,
        dtype: Dtype | None = None,
        device: str | None = None,
    ) -> T:
        """Return a matrix with ones on diagonal `k`, counted upwards from the main one, and zeros elsewhere."""
        expect_default(device)
        is_on_diagonal = self._compared_to_diagonal("eq", n_rows, n_rows if n_cols is None else n_cols, k)
        return is_on_diagonal.to(self.float32 if dtype is None else dtype)

    def tril(self, x: Array, /, *, k: int = 0) -> T:
        """Return matrices with zeros above diagonal `k`."""
        return self._triangle("le", x, k)

    def triu(self, x: Array, /, *, k: int = 0) -> T:
        """Return matrices with zeros below diagonal `k`."""
        return self._triangle("ge", x, k)

    def _triangle(self, comparison: str, x: Array, k: int) -> T:
        found = self._type(x)
        if len(found.shape) < 2:
            raise ValueError(f"x: expected at least 2 dimensions, got {len(found.shape)}")
        rows, columns = found.shape[-2:]
        is_kept = self._compared_to_diagonal(comparison, rows, columns, k)
        return self.where(is_kept, x, False if found.dtype == "bool" else 0)

    def _compared_to_diagonal(self, comparison: str, rows: int, columns: int, k: int) -> T:
        """Return which elements of a matrix are on a diagonal, not above it or not below it."""
        diagonals = self.subtract(self.arange(columns), self.arange(rows)._view((slice(None), None)))
        # Diagonals outside of the matrix are alike, and k may be any integer.
        return self._client.op(comparison, diagonals, other=sorted((-rows, k, columns))[1])

    def meshgrid(self, *arrays: Array, indexing: Literal["xy", "ij"] = "xy") -> list[T]:
        """Return the coordinates of a grid, each in the shape of the grid."""
        if indexing not in ("xy", "ij"):
            raise ValueError(f"indexing: expected 'xy' or 'ij', got {indexing!r}")
        swaps = indexing == "xy" and len(arrays) > 1
        axes = [1, 0, *range(2, len(arrays))] if swaps else list(range(len(arrays)))
        shapes = [[-1 if at == axis else 1 for at in range(len(arrays))] for axis in axes]
        return self.broadcast_arrays(
            *(self._client.op("reshape", x, shape=shape) for x, shape in zip(arrays, shapes, strict=True))
        )

    def broadcast_to(self, x: Array, /, shape: Sequence[int]) -> T:
        """Broadcast to a shape."""
        return self._client.op("broadcast_to", x, shape=listed(shape))

    def broadcast_arrays(self, *arrays: Array) -> list[T]:
        """Broadcast tensors to their common shape."""
        shape = broadcast(self._shape(x, f"arrays[{at}]") for at, x in enumerate(arrays))
        return [self.broadcast_to(x, shape) for x in arrays]

    def astype(self, x: Array, dtype: Dtype, /, *, copy: builtins.bool = True, device: str | None = None) -> T:
        """Convert to an element type."""
        expect_default(device)
        return self._client.tensor(x, dtype=dtype)

    def rand(
        self, shape: int | Sequence[int], /, *seed: Array, dtype: Dtype | None = None, **attributes: Attribute
    ) -> T:
        """Return uniform random numbers from 0 to 1, which is excluded.

        Seed and offset are `seed` and `offset`, or scalar tensors. As numbers they are constants of a kernel that is
        compiled for them; tensors suit a seed that changes from call to call.
        """
        return self._client.op("rand", *seed, shape=listed(shape), **typed(dtype), **attributes)

    def randn(
        self, shape: int | Sequence[int], /, *seed: Array, dtype: Dtype | None = None, **attributes: Attribute
    ) -> T:
        """Return random numbers of the standard normal distribution. Seed and offset are as in `rand`."""
        return self._client.op("randn", *seed, shape=listed(shape), **typed(dtype), **attributes)


def _has_buffer(obj: object) -> builtins.bool:
    try:
        memoryview(obj)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True
