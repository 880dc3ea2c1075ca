"""Lazy tensors: operators and methods that record operations. The subclasses compute them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _indexing
from ._expression import Attribute, Expression, apply, describe, type_of
from ._resident import ResidentTensor
from ._tensor import Dtype, dtype_name, public_dtype
from ._types import TensorType

if TYPE_CHECKING:
    from typing_extensions import Self  # In typing since Python 3.11.

    from ._array_api import ArrayApi
    from ._data_parallel import DataParallel
    from ._tensor_factory import TensorFactory

T_co = TypeVar("T_co", covariant=True)
C = TypeVar("C")
T = TypeVar("T", bound="LazyTensor")

#: A Python number: it takes the element type of the other operand, as long as that is of its kind.
Scalar: TypeAlias = "bool | int | float"
#: An operand that is a tensor, or becomes an input of the graph.
Array: TypeAlias = "LazyTensor | NDArray[Any] | np.generic"
Operand: TypeAlias = "Array | Scalar"
Axis: TypeAlias = "int | Sequence[int] | None"
#: The device of tensors that are not resident.
DEFAULT_DEVICE = "default"


class ReductionMethod(Protocol[T_co]):
    """A reduction of one tensor."""

    def __call__(self, axis: Axis = None, keepdims: bool = False, **attributes: Attribute) -> T_co: ...


class _Reduction:
    """A method that is the function of the same name of the Array API namespace."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, tensor: T, owner: type[T]) -> ReductionMethod[T]:
        found: ReductionMethod[T] = partial(getattr(tensor.__array_namespace__(), self._name), tensor)
        return found


class _Operator:
    """A binary operator. Operands of other types are left to Python."""

    def __init__(self, op: str, *, is_reflected: bool = False) -> None:
        self._op = op
        self._is_reflected = is_reflected

    def __get__(self, tensor: T, owner: type[T]) -> Callable[[Operand], T]:
        return partial(self._apply, tensor)

    def _apply(self, tensor: T, other: Operand) -> Any:
        if not is_array(other) and (self._op == "matmul" or not is_scalar(other)):
            return NotImplemented
        operands = (other, tensor) if self._is_reflected else (tensor, other)
        if self._op == "matmul":
            return tensor._client.xp.matmul(*operands)
        return tensor._client._binary(self._op, *operands)


class LazyTensor:
    """A tensor of a client: an array, or operations that are computed when their result is asked for.

    Operators, indexing and methods record operations with the semantics of PyTorch: shapes broadcast, and a Python
    number takes the element type of the tensor. `client.xp` has the functions of the Array API standard, and
    `client.op` any operation by name.
    """

    __slots__ = ("_client", "_expression")

    # numpy's operators leave the operation to this class: `array @ tensor` is a tensor.
    __array_ufunc__: ClassVar[None] = None
    # Without these, Python would count up indices until one is out of range, which only the daemon knows.
    __iter__: ClassVar[None] = None
    __contains__: ClassVar[None] = None
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __init__(self, client: TensorFactory[Any], expression: Expression) -> None:
        self._client = client
        self._expression = expression

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {describe(self._expression)}>"

    def __array_namespace__(self, *, api_version: str | None = None) -> ArrayApi[Self]:
        found: ArrayApi[Self] = self._client.xp._of_version(api_version)
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dimension, inferred without a call.

        Raises:
            AttributeError: Only the daemon knows it: the tensor is the result of a rarer operation, which is not
                computed yet, or its operands do not fit.
        """
        return self._type("shape").shape

    @property
    def ndim(self) -> int:
        """Number of dimensions. As `shape`."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements. As `shape`."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any] | Literal["bf16"]:
        """Element type; the name of bfloat16, which numpy lacks. As `shape`."""
        return public_dtype(self._type("dtype").dtype)

    @property
    def device(self) -> str:
        """Where a resident tensor is, such as "cuda:0"; "default" of others: the daemon chooses where they run."""
        return DEFAULT_DEVICE if self.resident is None else self.resident.device

    @property
    def resident(self) -> ResidentTensor | None:
        """What the daemon keeps of the tensor: its handle, its device and its times; None if it is not kept."""
        content = self._expression.content
        return content if isinstance(content, ResidentTensor) else None

    def _type(self, what: str) -> TensorType:
        found = type_of(self._expression)
        if found is not None:
            return found
        raise AttributeError(f"{what}: known once the tensor is computed, as by numpy(): {describe(self._expression)}")

    @property
    def T(self) -> Self:  # noqa: N802
        """The transpose of a matrix."""
        return self._apply("permute", dims=[1, 0])

    @property
    def mT(self) -> Self:  # noqa: N802
        """The transpose of the last two dimensions."""
        return self._apply("transpose", dim0=-2, dim1=-1)

    def to(self, dtype: Dtype) -> Self:
        """Convert to an element type: numpy's, or a name such as "f32" or "bf16"."""
        return self._apply("to", dtype=dtype_name(dtype))

    astype = to

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Return the same elements in another shape. An extent of -1 is what is left."""
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        return self._apply("reshape", shape=[operator.index(extent) for extent in extents])  # type: ignore[arg-type]

    all = _Reduction()
    any = _Reduction()
    argmax = _Reduction()
    argmin = _Reduction()
    max = _Reduction()
    mean = _Reduction()
    min = _Reduction()
    prod = _Reduction()
    std = _Reduction()
    sum = _Reduction()
    var = _Reduction()

    def __getitem__(self, index: _indexing.Index) -> Self:
        if _indexing.has_arrays(index):
            return self._client.xp._taken(self, index)  # type: ignore[no-any-return]
        tensor = self
        for op, attributes in _indexing.views(index):
            tensor = tensor._apply(op, **attributes)
        return tensor

    def __setitem__(self, index: _indexing.Index, value: Operand) -> None:
        """Record an assignment: the tensor becomes another expression, and those that read it before keep the old one.

        Raises:
            TypeError: The tensor is resident: those never change.
        """
        if self.resident is not None:
            raise TypeError("a resident tensor never changes; assign to one that is computed from it")
        self._expression = self._client.xp._assigned(self, index, value)._expression

    def _apply(self, op: str, /, **attributes: Attribute) -> Self:
        return self._of(apply(op, [self._expression], attributes)[0])

    def _of(self, expression: Expression) -> Self:
        return type(self)(self._client, expression)

    __add__ = _Operator("add")
    __sub__ = _Operator("sub")
    __mul__ = _Operator("mul")
    __truediv__ = _Operator("div")
    __floordiv__ = _Operator("floor_divide")
    __mod__ = _Operator("remainder")
    __pow__ = _Operator("pow")
    __matmul__ = _Operator("matmul")
    __and__ = _Operator("bitwise_and")
    __or__ = _Operator("bitwise_or")
    __xor__ = _Operator("bitwise_xor")
    __lshift__ = _Operator("bitwise_left_shift")
    __rshift__ = _Operator("bitwise_right_shift")
    __radd__ = _Operator("add", is_reflected=True)
    __rsub__ = _Operator("sub", is_reflected=True)
    __rmul__ = _Operator("mul", is_reflected=True)
    __rtruediv__ = _Operator("div", is_reflected=True)
    __rfloordiv__ = _Operator("floor_divide", is_reflected=True)
    __rmod__ = _Operator("remainder", is_reflected=True)
    __rpow__ = _Operator("pow", is_reflected=True)
    __rmatmul__ = _Operator("matmul", is_reflected=True)
    __rand__ = _Operator("bitwise_and", is_reflected=True)
    __ror__ = _Operator("bitwise_or", is_reflected=True)
    __rxor__ = _Operator("bitwise_xor", is_reflected=True)
    __rlshift__ = _Operator("bitwise_left_shift", is_reflected=True)
    __rrshift__ = _Operator("bitwise_right_shift", is_reflected=True)
    __eq__ = _Operator("eq")  # type: ignore[assignment]
    __ne__ = _Operator("ne")  # type: ignore[assignment]
    __lt__ = _Operator("lt")
    __le__ = _Operator("le")
    __gt__ = _Operator("gt")
    __ge__ = _Operator("ge")

    def __neg__(self) -> Self:
        return self._apply("neg")

    def __pos__(self) -> Self:
        return self._of(self._expression)

    def __abs__(self) -> Self:
        return self._apply("abs")

    def __invert__(self) -> Self:
        return self._apply("bitwise_not")


def is_array(operand: object) -> bool:
    """Whether an operand is a tensor, or becomes one."""
    return isinstance(operand, (LazyTensor, np.ndarray, np.generic))


def is_scalar(operand: object) -> bool:
    """Whether an operand is a Python number. Numbers of numpy have an element type of their own."""
    return isinstance(operand, (bool, int, float)) and not is_array(operand)


class GraphOutputs(Generic[C, T]):
    """Outputs that are collected in a block."""

    def __init__(self, client: C, data_parallel: DataParallel | None, timeout: float | None) -> None:
        self._client = client
        self._timeout = timeout
        #: Which operands are split over which devices; read at the end of the block.
        self.data_parallel = data_parallel
        self._outputs: list[T] = []

    def output(self, tensor: T) -> T:
        """Add an output, and return it. After the block its `numpy()` makes no call."""
        self._outputs.append(tensor)
        return tensor
