"""Functions of each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._lazy import Array, Operand, T, is_scalar
from .._tensor import public_dtype
from .._types import INTEGER, kind
from ._dtypes import Dtypes
from ._namespace import Binary, Unary


class Elementwise(Dtypes[T]):
    """Functions of each element; operands broadcast."""

    __slots__ = ()

    abs = Unary("abs")
    acos = Unary("acos")
    acosh = Unary("acosh")
    asin = Unary("asin")
    asinh = Unary("asinh")
    atan = Unary("atan")
    atanh = Unary("atanh")
    bitwise_invert = Unary("bitwise_not")
    ceil = Unary("ceil")
    cos = Unary("cos")
    cosh = Unary("cosh")
    erf = Unary("erf")
    erfc = Unary("erfc")
    exp = Unary("exp")
    exp2 = Unary("exp2")
    expm1 = Unary("expm1")
    floor = Unary("floor")
    isfinite = Unary("isfinite")
    isinf = Unary("isinf")
    isnan = Unary("isnan")
    log = Unary("log")
    log10 = Unary("log10")
    log1p = Unary("log1p")
    log2 = Unary("log2")
    logical_not = Unary("logical_not")
    negative = Unary("neg")
    positive = Unary("positive")
    reciprocal = Unary("reciprocal")
    round = Unary("round")
    rsqrt = Unary("rsqrt")
    sign = Unary("sign")
    signbit = Unary("signbit")
    sin = Unary("sin")
    sinh = Unary("sinh")
    sqrt = Unary("sqrt")
    square = Unary("square")
    tan = Unary("tan")
    tanh = Unary("tanh")
    trunc = Unary("trunc")
    # Of real numbers, the only ones that there are.
    conj = Unary("positive")
    real = Unary("positive")

    add = Binary("add")
    atan2 = Binary("atan2")
    bitwise_and = Binary("bitwise_and")
    bitwise_left_shift = Binary("bitwise_left_shift")
    bitwise_or = Binary("bitwise_or")
    bitwise_right_shift = Binary("bitwise_right_shift")
    bitwise_xor = Binary("bitwise_xor")
    copysign = Binary("copysign")
    divide = Binary("div")
    equal = Binary("eq")
    floor_divide = Binary("floor_divide")
    fmod = Binary("fmod")
    greater = Binary("gt")
    greater_equal = Binary("ge")
    hypot = Binary("hypot")
    less = Binary("lt")
    less_equal = Binary("le")
    logaddexp = Binary("logaddexp")
    logical_and = Binary("logical_and")
    logical_or = Binary("logical_or")
    logical_xor = Binary("logical_xor")
    maximum = Binary("maximum")
    minimum = Binary("minimum")
    multiply = Binary("mul")
    not_equal = Binary("ne")
    pow = Binary("pow")
    remainder = Binary("remainder")
    subtract = Binary("sub")

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
