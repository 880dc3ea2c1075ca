"""Operators, indexing and reductions of lazy tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from . import _indexing
from ._array_api import ArrayApi
from ._expression import Attribute
from ._lazy import Axis, Index, LazyTensor, Operand, T_co, is_array, is_scalar
from ._tensor_factory import TensorFactory

if TYPE_CHECKING:
    from typing_extensions import Self  # In typing since Python 3.11.

T = TypeVar("T", bound="TensorOperators")


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
            return ArrayApi.of(tensor._client).matmul(*operands)
        return tensor._client._binary(self._op, *operands)


class TensorOperators(LazyTensor):
    """A lazy tensor whose operators, indices and methods record operations with the semantics of PyTorch.

    Shapes broadcast, and a Python number takes the element type of the tensor. `client.xp` has the functions of the
    Array API standard, and `client.op` any operation by name.
    """

    __slots__ = ()

    _client: TensorFactory[Any]

    # numpy's operators leave the operation to this class: `array @ tensor` is a tensor.
    __array_ufunc__: ClassVar[None] = None
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __array_namespace__(self, *, api_version: str | None = None) -> ArrayApi[Self]:
        found: ArrayApi[Self] = ArrayApi.of(self._client)._of_version(api_version)
        return found

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

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """Return the elements within bounds."""
        return ArrayApi.of(self._client).clip(self, min, max)  # type: ignore[no-any-return]

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Self:
        """Return the tensor without dimensions of extent 1: these, or all."""
        chosen = [at for at, extent in enumerate(self.shape) if extent == 1] if axis is None else axis
        return ArrayApi.of(self._client).squeeze(self, axis=chosen)  # type: ignore[no-any-return]

    def __getitem__(self, index: Index) -> Self:
        if _indexing.has_arrays(index):
            return ArrayApi.of(self._client)._taken(self, index)  # type: ignore[no-any-return]
        return self._view(index)

    def __setitem__(self, index: Index, value: Operand) -> None:
        """Record an assignment. Tensors that were computed from the old elements do not change.

        Raises:
            TypeError: The tensor is resident; resident tensors never change.
        """
        if self.resident is not None:
            raise TypeError("a resident tensor never changes; assign to one that is computed from it")
        self._expression = ArrayApi.of(self._client)._assigned(self, index, value)._expression

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
