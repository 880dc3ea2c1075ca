"""The Array API namespace of a client: functions that record operations on lazy tensors."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ._expression import Attribute
from ._lazy import Array, Axis, LazyTensor, Operand, Scalar, T, T_co, is_scalar
from ._tensor import Dtype

if TYPE_CHECKING:
    from ._tensor_factory import TensorFactory


class UnaryFunction(Protocol[T_co]):
    """A function of one operand. Keyword arguments are attributes of the operation."""

    def __call__(self, x: Array, /, **attributes: Attribute) -> T_co: ...


class BinaryFunction(Protocol[T_co]):
    """A function of two operands, of which one may be a number."""

    def __call__(self, x1: Operand, x2: Operand, /, **attributes: Attribute) -> T_co: ...


class TensorFunction(Protocol[T_co]):
    """A function of tensors. Keyword arguments are attributes of the operation."""

    def __call__(self, *operands: Array, **attributes: Attribute) -> T_co: ...


class ReductionFunction(Protocol[T_co]):
    """A reduction over some dimensions, by default all."""

    def __call__(self, x: Array, /, axis: Axis = None, *, keepdims: bool = False, **attributes: Attribute) -> T_co: ...


class _Unary:
    def __init__(self, op: str) -> None:
        self._op = op

    def __get__(self, xp: ArrayApi[T], owner: object) -> UnaryFunction[T]:
        return partial(xp._client.op, self._op)


class _Function:
    def __init__(self, op: str) -> None:
        self._op = op

    def __get__(self, xp: ArrayApi[T], owner: object) -> TensorFunction[T]:
        return partial(xp._client.op, self._op)


class _Binary:
    def __init__(self, op: str) -> None:
        self._op = op

    def __get__(self, xp: ArrayApi[T], owner: object) -> BinaryFunction[T]:
        return partial(xp._client._binary, self._op)


class _Reduction:
    def __init__(self, op: str, **defaults: Attribute) -> None:
        self._op = op
        self._defaults = defaults

    def __get__(self, xp: ArrayApi[T], owner: object) -> ReductionFunction[T]:
        return partial(self._apply, xp)

    def _apply(
        self, xp: ArrayApi[T], x: Array, /, axis: Axis = None, *, keepdims: bool = False, **attributes: Attribute
    ) -> T:
        if isinstance(axis, Sequence) and not axis:
            raise ValueError("axis: expected at least one dimension, or None for all, got none")
        given: dict[str, Attribute] = {**self._defaults, "dim": axis, "keepdim": keepdims or None}
        return xp._client.op(self._op, x, **{**given, **attributes})


class ArrayApi(Generic[T]):
    """Functions of the Array API standard, and of neural networks, on the lazy tensors of a client.

    Operands may be numpy arrays. Names and arguments are the standard's; results are those of PyTorch's operations. The
    default element type of floating-point results is float32.
    """

    __slots__ = ("_client",)

    bool, bfloat16 = np.dtype(np.bool_), "bf16"
    int8, int16, int32, int64 = np.dtype(np.int8), np.dtype(np.int16), np.dtype(np.int32), np.dtype(np.int64)
    uint8, uint16, uint32, uint64 = np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64)
    float16, float32, float64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
    e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

    abs = _Unary("abs")
    acos = _Unary("acos")
    acosh = _Unary("acosh")
    asin = _Unary("asin")
    asinh = _Unary("asinh")
    atan = _Unary("atan")
    atanh = _Unary("atanh")
    bitwise_invert = _Unary("bitwise_not")
    ceil = _Unary("ceil")
    cos = _Unary("cos")
    cosh = _Unary("cosh")
    erf = _Unary("erf")
    erfc = _Unary("erfc")
    exp = _Unary("exp")
    exp2 = _Unary("exp2")
    expm1 = _Unary("expm1")
    floor = _Unary("floor")
    isfinite = _Unary("isfinite")
    isinf = _Unary("isinf")
    isnan = _Unary("isnan")
    log = _Unary("log")
    log10 = _Unary("log10")
    log1p = _Unary("log1p")
    log2 = _Unary("log2")
    logical_not = _Unary("logical_not")
    negative = _Unary("neg")
    positive = _Unary("positive")
    reciprocal = _Unary("reciprocal")
    round = _Unary("round")
    rsqrt = _Unary("rsqrt")
    sign = _Unary("sign")
    signbit = _Unary("signbit")
    sin = _Unary("sin")
    sinh = _Unary("sinh")
    sqrt = _Unary("sqrt")
    square = _Unary("square")
    tan = _Unary("tan")
    tanh = _Unary("tanh")
    trunc = _Unary("trunc")
    # Of neural networks; PyTorch's attributes, as `gelu(x, approximate="tanh")`.
    elu = _Unary("elu")
    gelu = _Unary("gelu")
    leaky_relu = _Unary("leaky_relu")
    relu = _Unary("relu")
    sigmoid = _Unary("sigmoid")
    silu = _Unary("silu")
    softplus = _Unary("softplus")

    # Operands in PyTorch's order, as `cross_entropy(logits, target, weight, label_smoothing=0.1)`.
    batch_norm = _Function("batch_norm")
    bernoulli = _Function("bernoulli")
    binary_cross_entropy = _Function("binary_cross_entropy")
    binary_cross_entropy_with_logits = _Function("binary_cross_entropy_with_logits")
    cosine_similarity = _Function("cosine_similarity")
    cross_entropy = _Function("cross_entropy")
    dropout = _Function("dropout")
    embedding = _Function("embedding")
    gather = _Function("gather")
    group_norm = _Function("group_norm")
    huber_loss = _Function("huber_loss")
    instance_norm = _Function("instance_norm")
    kl_div = _Function("kl_div")
    l1_loss = _Function("l1_loss")
    masked_fill = _Function("masked_fill")
    mse_loss = _Function("mse_loss")
    nll_loss = _Function("nll_loss")
    normalize = _Function("normalize")
    one_hot = _Function("one_hot")
    smooth_l1_loss = _Function("smooth_l1_loss")

    add = _Binary("add")
    atan2 = _Binary("atan2")
    bitwise_and = _Binary("bitwise_and")
    bitwise_left_shift = _Binary("bitwise_left_shift")
    bitwise_or = _Binary("bitwise_or")
    bitwise_right_shift = _Binary("bitwise_right_shift")
    bitwise_xor = _Binary("bitwise_xor")
    copysign = _Binary("copysign")
    divide = _Binary("div")
    equal = _Binary("eq")
    floor_divide = _Binary("floor_divide")
    fmod = _Binary("fmod")
    greater = _Binary("gt")
    greater_equal = _Binary("ge")
    hypot = _Binary("hypot")
    less = _Binary("lt")
    less_equal = _Binary("le")
    logaddexp = _Binary("logaddexp")
    logical_and = _Binary("logical_and")
    logical_or = _Binary("logical_or")
    logical_xor = _Binary("logical_xor")
    maximum = _Binary("maximum")
    minimum = _Binary("minimum")
    multiply = _Binary("mul")
    not_equal = _Binary("ne")
    pow = _Binary("pow")
    remainder = _Binary("remainder")
    subtract = _Binary("sub")

    all = _Reduction("all")
    any = _Reduction("any")
    argmax = _Reduction("argmax")
    argmin = _Reduction("argmin")
    logsumexp = _Reduction("logsumexp")
    max = _Reduction("amax")
    mean = _Reduction("mean")
    min = _Reduction("amin")
    norm = _Reduction("norm")
    prod = _Reduction("prod")
    std = _Reduction("std", correction=0.0)
    sum = _Reduction("sum")
    var = _Reduction("var", correction=0.0)

    def __init__(self, client: TensorFactory[T]) -> None:
        self._client = client

    def asarray(self, obj: ArrayLike | LazyTensor, /, *, dtype: Dtype | None = None, copy: Any = None) -> T:
        """Return a tensor of an array. Without a copy, later changes of the array may change the tensor."""
        array = np.array(obj) if copy and not isinstance(obj, LazyTensor) else obj
        return self._client.tensor(array, dtype=dtype)

    def astype(self, x: Array, dtype: Dtype, /) -> T:
        """Convert to an element type."""
        return self._client.tensor(x, dtype=dtype)

    def full(self, shape: int | Sequence[int], fill_value: Scalar, *, dtype: Dtype | None = None) -> T:
        """Return a tensor of equal elements. The type of the number decides theirs unless `dtype` does."""
        return self._client.op("full", shape=_listed(shape), value=fill_value, **_typed(dtype))

    def zeros(self, shape: int | Sequence[int], *, dtype: Dtype | None = None) -> T:
        """Return a tensor of zeros."""
        return self.full(shape, 0.0, dtype=dtype)

    def ones(self, shape: int | Sequence[int], *, dtype: Dtype | None = None) -> T:
        """Return a tensor of ones."""
        return self.full(shape, 1.0, dtype=dtype)

    def arange(self, start: float, /, stop: float | None = None, step: float = 1, *, dtype: Dtype | None = None) -> T:
        """Return the numbers from `start`, by default 0, to `stop`, which is excluded."""
        first, end = (0, start) if stop is None else (start, stop)
        return self._client.op("arange", start=first, end=end, step=step, **_typed(dtype))

    def linspace(self, start: float, stop: float, /, num: int, *, dtype: Dtype | None = None) -> T:
        """Return evenly spaced numbers from `start` to `stop`, both included."""
        return self._client.op("linspace", start=start, end=stop, steps=num, **_typed(dtype))

    def rand(
        self, shape: int | Sequence[int], /, *seed: Array, dtype: Dtype | None = None, **attributes: Attribute
    ) -> T:
        """Return uniform random numbers from 0 to 1, which is excluded.

        Seed and offset are `seed` and `offset`, or scalar tensors. As numbers they are constants of a kernel that is
        compiled for them; tensors suit a seed that changes from call to call.
        """
        return self._client.op("rand", *seed, shape=_listed(shape), **_typed(dtype), **attributes)

    def randn(
        self, shape: int | Sequence[int], /, *seed: Array, dtype: Dtype | None = None, **attributes: Attribute
    ) -> T:
        """Return random numbers of the standard normal distribution. Seed and offset are as in `rand`."""
        return self._client.op("randn", *seed, shape=_listed(shape), **_typed(dtype), **attributes)

    def reshape(self, x: Array, /, shape: int | Sequence[int]) -> T:
        """Return the same elements in another shape. An extent of -1 is what is left."""
        return self._client.op("reshape", x, shape=_listed(shape))

    def permute_dims(self, x: Array, /, axes: Sequence[int]) -> T:
        """Reorder the dimensions."""
        return self._client.op("permute", x, dims=_listed(axes))

    def swapaxes(self, x: Array, axis1: int, axis2: int, /) -> T:
        """Swap two dimensions."""
        return self._client.op("transpose", x, dim0=axis1, dim1=axis2)

    def matrix_transpose(self, x: Array, /) -> T:
        """Swap the last two dimensions."""
        return self.swapaxes(x, -2, -1)

    def expand_dims(self, x: Array, /, *, axis: int = 0) -> T:
        """Insert a dimension of extent 1."""
        return self._client.op("unsqueeze", x, dim=axis)

    def squeeze(self, x: Array, /, axis: int | Sequence[int]) -> T:
        """Drop dimensions of extent 1."""
        return self._client.op("squeeze", x, dim=axis)

    def flip(self, x: Array, /, *, axis: int | Sequence[int]) -> T:
        """Reverse the order along dimensions."""
        return self._client.op("flip", x, dims=_listed(axis))

    def broadcast_to(self, x: Array, /, shape: Sequence[int]) -> T:
        """Broadcast to a shape."""
        return self._client.op("broadcast_to", x, shape=_listed(shape))

    def concat(self, arrays: Sequence[Array], /, *, axis: int | None = 0) -> T:
        """Join arrays along a dimension; flattened if it is None."""
        flat = arrays if axis is not None else [self.reshape(one, -1) for one in arrays]
        return self._client.op("concat", *flat, dim=axis or 0)

    def stack(self, arrays: Sequence[Array], /, *, axis: int = 0) -> T:
        """Join arrays of equal shape along a new dimension."""
        return self.concat([self.expand_dims(one, axis=axis) for one in arrays], axis=axis)

    def where(self, condition: Array, x1: Operand, x2: Operand, /) -> T:
        """Choose elements of `x1` where the condition is true, and of `x2` elsewhere."""
        return self._client._mixed("where", [condition], {"input": x1, "other": x2})

    def clip(self, x: Array, /, min: Operand | None = None, max: Operand | None = None) -> T:
        """Limit elements to a range."""
        bounds: dict[str, Any] = {"min": min, "max": max}
        if min is None and max is None:
            return self._client.tensor(x)
        if all(one is None or is_scalar(one) for one in bounds.values()):
            return self._client.op("clamp", x, **bounds)
        raised = x if min is None else self.maximum(x, min)
        return self._client.tensor(raised) if max is None else self.minimum(raised, max)

    def matmul(self, x1: Array, x2: Array, /, **attributes: Attribute) -> T:
        """Multiply matrices; leading dimensions broadcast.

        Attributes are `transpose_a`, `transpose_b`, and `precision`: "high" permits TF32 for float32.
        """
        return self._client.op("matmul", x1, x2, **attributes)

    def linear(self, x: Array, weight: Array, bias: Array | None = None, /, **attributes: Attribute) -> T:
        """Return `x @ weight.T + bias`, with the `activation` of that name, such as "gelu", in the same kernel."""
        return self._client.op("linear", *_present(x, weight, bias), **attributes)

    def take(self, x: Array, indices: Array, /, *, axis: int = 0) -> T:
        """Choose elements along a dimension by a vector of indices, none of them negative."""
        return self._client.op("index_select", x, indices, dim=axis)

    def take_along_axis(self, x: Array, indices: Array, /, *, axis: int = -1) -> T:
        """Choose an element along a dimension for each index. Other dimensions broadcast."""
        return self._client.op("take_along_dim", x, indices, dim=axis)

    def sort(
        self, x: Array, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True
    ) -> T:
        """Return the elements in order along a dimension; NaN is greater than any number."""
        return self._client.op("sort", x, dim=axis, descending=descending, stable=stable)[0]

    def argsort(
        self, x: Array, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True
    ) -> T:
        """Return the indices of the elements in order along a dimension. Equal elements keep their order."""
        return self._client.op("argsort", x, dim=axis, descending=descending, stable=stable)

    def cumulative_sum(self, x: Array, /, *, axis: int = 0, dtype: Dtype | None = None) -> T:
        """Return the sums of the elements up to each one along a dimension."""
        return self._client.op("cumsum", x, dim=axis, **_typed(dtype))

    def cumulative_prod(self, x: Array, /, *, axis: int = 0, dtype: Dtype | None = None) -> T:
        """Return the products of the elements up to each one along a dimension."""
        return self._client.op("cumprod", x, dim=axis, **_typed(dtype))

    def softmax(self, x: Array, /, *, axis: int = -1) -> T:
        """Exponentials that sum to 1 along a dimension."""
        return self._client.op("softmax", x, dim=axis)

    def log_softmax(self, x: Array, /, *, axis: int = -1) -> T:
        """Logarithms of `softmax`."""
        return self._client.op("log_softmax", x, dim=axis)

    def layer_norm(
        self, x: Array, weight: Array | None = None, bias: Array | None = None, /, **attributes: Attribute
    ) -> T:
        """Normalise to mean 0 and variance 1 over the last dimension or `normalized_shape`, with `eps` added."""
        if weight is None and bias is not None:
            raise ValueError("bias: expected a weight before it, got none")
        return self._client.op("layer_norm", *_present(x, weight, bias), **attributes)

    def rms_norm(self, x: Array, weight: Array | None = None, /, **attributes: Attribute) -> T:
        """Divide by the root of the mean square over the last dimension or `normalized_shape`, with `eps` added."""
        return self._client.op("rms_norm", *_present(x, weight), **attributes)

    def scaled_dot_product_attention(
        self,
        query: Array,
        key: Array,
        value: Array,
        attn_mask: Array | None = None,
        /,
        *,
        lengths: Array | None = None,
        is_causal: Attribute = False,
        **attributes: Attribute,
    ) -> T:
        """Return `softmax(scale * query @ key.mT + attn_mask) @ value`, of which the softmax is never stored.

        A boolean `attn_mask` is true where a key takes part; `lengths` has the number of keys of each batch that do. A
        row in which none does is 0. Attributes are `scale`, by default 1 over the root of the last extent of `query`,
        and `enable_gqa`, if key and value have fewer heads.
        """
        counts = None if lengths is None else self.astype(lengths, self.int32)
        operands = _present(query, key, value, attn_mask, counts)
        return self._client.op("scaled_dot_product_attention", *operands, is_causal=is_causal or None, **attributes)


def _listed(value: int | Sequence[int]) -> list[int]:
    return list(value) if isinstance(value, Sequence) else [value]


def _typed(dtype: Dtype | None) -> dict[str, Any]:
    return {} if dtype is None else {"dtype": dtype}


def _present(*operands: Array | None) -> list[Array]:
    return [one for one in operands if one is not None]
