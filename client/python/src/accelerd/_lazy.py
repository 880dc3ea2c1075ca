"""Lazy tensors: expressions of a client that are computed when their result is asked for."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _html, _indexing
from ._expression import Attribute, Expression, apply, describe, known_type, type_of
from ._resident import ResidentTensor
from ._tensor import Dtype, Value, dtype_name, element_bytes, public_dtype
from ._types import TensorType

if TYPE_CHECKING:
    from typing_extensions import Self  # In typing since Python 3.11.

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T", bound="LazyTensor")

#: A Python number: it takes the element type of the other operand, as long as that is of its kind.
Scalar: TypeAlias = "bool | int | float"
#: An operand that is a tensor, or becomes an input of the graph.
Array: TypeAlias = "LazyTensor | NDArray[Any] | np.generic"
Operand: TypeAlias = "Array | Scalar"
Axis: TypeAlias = "int | Sequence[int] | None"
#: What `tensor[...]` takes: one of these, or a tuple of them.
IndexItem: TypeAlias = "int | slice | EllipsisType | LazyTensor | NDArray[Any] | None"
Index: TypeAlias = "IndexItem | tuple[IndexItem, ...]"
#: The device of tensors that are not resident.
DEFAULT_DEVICE = "default"
# How many elements of each dimension a notebook shows.
_SHOWN_EXTENT = 6


class LazyTensor:
    """A tensor of a client: an array, or operations that are computed when their result is asked for.

    `TensorOperators` adds what goes through the functions of the Array API namespace, which take these tensors.
    """

    __slots__ = ("_client", "_expression")

    #: Whether asking for elements that are not here computes them.
    _computes_on_demand: ClassVar[bool] = False

    def __init__(self, client: object, expression: Expression) -> None:
        self._client = client
        self._expression = expression

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {describe(self._expression)}>"

    def _repr_html_(self) -> str:
        """Show the first elements if they are here, and nothing that would take a call."""
        content = self._expression.content
        if isinstance(content, Value):
            first = Value(content.number, content.array[(slice(_SHOWN_EXTENT),) * content.array.ndim])
            more = ", of which the first elements are shown" if first.array.shape != content.array.shape else ""
            shown = np.array2string(first.numpy(), threshold=_SHOWN_EXTENT**3)
            return _html.heading(f"{self!r}{more}") + _html.text(shown)
        return _html.heading(f"{self!r}{'' if self.resident is not None else ', not computed'}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dimension, inferred without a call.

        Raises:
            AttributeError: The shape is unknown until the tensor is computed, as a rarer operation makes it.
            ValueError: The shapes of operands do not fit; an IndexError for an index, a TypeError for element types.
        """
        return self._type("shape").shape

    @property
    def ndim(self) -> int:
        """Number of dimensions, inferred as `shape` is."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements, inferred as `shape` is."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element, inferred as `shape` is."""
        return element_bytes(self._type("itemsize").dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, inferred as `shape` is."""
        return self.size * self.itemsize

    @property
    def dtype(self) -> np.dtype[Any] | Literal["bf16"]:
        """Element type, inferred as `shape` is; "bf16" for bfloat16, which numpy lacks."""
        return public_dtype(self._type("dtype").dtype)

    @property
    def device(self) -> str:
        """The device of a resident tensor, such as "cuda:0"; "default" for others, which the daemon places."""
        return DEFAULT_DEVICE if self.resident is None else self.resident.device

    @property
    def resident(self) -> ResidentTensor | None:
        """Handle, device and times of the tensor on the daemon; None if it is not resident."""
        content = self._expression.content
        return content if isinstance(content, ResidentTensor) else None

    def _type(self, what: str) -> TensorType:
        found = known_type(self._expression)
        if found is not None:
            return found
        raise AttributeError(f"{what}: known once the tensor is computed, as by numpy(): {describe(self._expression)}")

    @property
    def T(self) -> Self:  # noqa: N802
        """The transpose of a matrix.

        Raises:
            ValueError: The tensor has another number of dimensions than 2.
        """
        known = type_of(self._expression)
        if known is not None and len(known.shape) != 2:
            raise ValueError(f"T: expected a matrix, got a tensor of shape {known.shape}; mT transposes the last two")
        return self._apply("permute", dims=[1, 0])

    @property
    def mT(self) -> Self:  # noqa: N802
        """The transpose of the last two dimensions."""
        return self._apply("transpose", dim0=-2, dim1=-1)

    def to(self, dtype: Dtype) -> Self:
        """Convert to an element type: one of numpy, or a name such as "f32" or "bf16"."""
        return self._apply("to", dtype=dtype_name(dtype))

    astype = to

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Return the same elements in another shape. An extent of -1 is inferred from the others."""
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        return self._apply("reshape", shape=[operator.index(extent) for extent in extents])  # type: ignore[arg-type]

    def flatten(self) -> Self:
        """Return the same elements in one dimension."""
        return self.reshape(-1)

    ravel = flatten

    def transpose(self, *axes: int | Sequence[int]) -> Self:
        """Return the tensor with its dimensions in another order; without `axes` reversed, as in numpy."""
        dims = axes[0] if len(axes) == 1 and isinstance(axes[0], Sequence) else axes
        order = [operator.index(dim) for dim in dims] if dims else [*range(self.ndim)][::-1]  # type: ignore[arg-type]
        return self._apply("permute", dims=order)

    def _view(self, index: Any) -> Self:
        """Return the tensor at an index of integers, slices, None and Ellipsis."""
        tensor, known = self, type_of(self._expression)
        for op, attributes in _indexing.views(index, None if known is None else known.shape):
            tensor = tensor._apply(op, **attributes)
        return tensor

    def _apply(self, op: str, /, **attributes: Attribute) -> Self:
        return self._of(apply(op, [self._expression], attributes)[0])

    def _of(self, expression: Expression) -> Self:
        return type(self)(self._client, expression)


def extent(known: TensorType | None) -> int:
    """Return the extent of the first dimension of a type.

    Raises:
        TypeError: There is none, or it is not known.
    """
    if known is None:
        raise TypeError("the length of a tensor of unknown shape is known once it is computed")
    if not known.shape:
        raise TypeError("a tensor without dimensions has no length, and cannot be iterated over")
    return known.shape[0]


def formatted(array: NDArray[Any], spec: str) -> str:
    """Return the only element of an array in a format, such as ".3f"."""
    if array.ndim:
        raise TypeError(f"format {spec!r}: expected a tensor without dimensions, got one of shape {array.shape}")
    return format(array.item(), spec)


def is_array(operand: object) -> bool:
    """Whether an operand is a tensor, or becomes one."""
    return isinstance(operand, (LazyTensor, np.ndarray, np.generic))


def is_scalar(operand: object) -> bool:
    """Whether an operand is a Python number. Numbers of numpy have an element type of their own."""
    return isinstance(operand, (bool, int, float)) and not is_array(operand)
