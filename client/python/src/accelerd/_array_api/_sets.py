"""Functions of the distinct elements of a tensor, which is computed: the shapes of their results depend on it."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from .._lazy import Array, T
from .._tensor import public_dtype
from ._manipulation import host_values
from ._searching import Searching

# The tuples have tensors of the client. A NamedTuple cannot be generic before Python 3.11.


class UniqueAllResult(NamedTuple):
    """Distinct elements, where each occurs first in the flattened tensor, the inverse, and how often each occurs."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """Distinct elements, and how often each occurs."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """Distinct elements, and in the shape of the tensor the position of each of its elements among them."""

    values: Any
    inverse_indices: Any


class Sets(Searching[T]):
    """Functions of distinct elements, which are ascending. Each NaN is distinct and comes last; 0 and -0 are equal."""

    __slots__ = ()

    def unique_all(self, x: Array, /) -> UniqueAllResult:
        """Return the distinct elements, the index of the first of each, the inverse and the counts. Computes `x`."""
        given = host_values(x, "x")
        # The index of the first one makes numpy's order stable, also of NaN.
        values, indices, inverse, counts = np.unique(
            given, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
        )
        # Elements of bfloat16 are here as float32.
        distinct = self._client.tensor(values, dtype=public_dtype(self._type(x).dtype))
        integers = (indices, inverse.reshape(given.shape), counts)
        return UniqueAllResult(distinct, *(self._client.tensor(one, dtype=self.int64) for one in integers))

    def unique_counts(self, x: Array, /) -> UniqueCountsResult:
        """Return the distinct elements, and how often each occurs. Computes `x`."""
        found = self.unique_all(x)
        return UniqueCountsResult(found.values, found.counts)

    def unique_inverse(self, x: Array, /) -> UniqueInverseResult:
        """Return the distinct elements, and the position of each element of `x` among them. Computes `x`."""
        found = self.unique_all(x)
        return UniqueInverseResult(found.values, found.inverse_indices)

    def unique_values(self, x: Array, /) -> T:
        """Return the distinct elements. Computes `x`."""
        return cast("T", self.unique_all(x).values)
