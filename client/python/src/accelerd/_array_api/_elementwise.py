"""Functions of each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._lazy import Array, Operand, T, is_scalar
from .._tensor import public_dtype
from .._types import INTEGER, kind
from ._functions import Functions
from ._namespace import Unary


class Elementwise(Functions[T]):
    """Functions of each element that are more than one operation, or have another name than it; operands broadcast."""

    __slots__ = ()

    # Of real numbers, the only ones that there are.
    conj = Unary("positive")
    real = Unary("positive")

    def where(self, condition: Array, x1: Operand, x2: Operand, /) -> T:
        """Choose elements of `x1` where the condition is true, and of `x2` elsewhere."""
        return self._client._mixed("where", [condition], {"input": x1, "other": x2})

    def clip(self, x: Array, /, min: Operand | None = None, max: Operand | None = None) -> T:
        """Limit elements to a range. The result has the element type of `x`."""
        if min is None and max is None:
            return self._client.tensor(x)
        if all(one is None or is_scalar(one) for one in (min, max)):
            bounds: dict[str, Any] = {"min": min, "max": max}
            return self._client.op("clamp", x, **self._in_range(x, bounds))
        raised = x if min is None else self.maximum(x, min)
        limited = self._client.tensor(raised) if max is None else self.minimum(raised, max)
        own, found = self._known(x), self._known(limited)
        return limited if own is None or found is None or own.dtype == found.dtype else limited.to(own.dtype)

    def _in_range(self, x: Array, bounds: dict[str, Any]) -> dict[str, Any]:
        """Return bounds as the element type of `x` holds them, if it is one of integers."""
        known = self._known(x)
        if known is None or kind(known.dtype) != INTEGER:
            return bounds
        limits = np.iinfo(public_dtype(known.dtype))

        def limited(bound: Any) -> Any:
            return bound if not isinstance(bound, int) else sorted((int(limits.min), bound, int(limits.max)))[1]

        return {name: limited(bound) for name, bound in bounds.items()}
