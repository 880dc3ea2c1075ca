"""What the blocking and the asyncio client have in common: lazy tensors, and graphs of their operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from . import _verify
from ._data_parallel import DataParallel, encode
from ._dlpack import host_array
from ._expression import Attribute, Expression, Result, apply
from ._graph import GraphCall
from ._lazy import Array, LazyTensor, T, is_array, is_scalar
from ._operations import SeveralResults
from ._proto.tensor_pb2 import DTYPE_BF16
from ._resident import ResidentTensor
from ._tensor import NUMPY_DTYPES, Dtype, Value, dtype_number

C = TypeVar("C")


class TensorFactory(Generic[T]):
    """Makes the lazy tensors of a client, and resolves those that its calls take."""

    _tensor_class: type[T]

    def tensor(self, array: ArrayLike | LazyTensor, *, dtype: Dtype | None = None) -> T:
        """Return a tensor of an array.

        The elements are read when a call needs them: until then, changes of the array change the tensor. Arrays that
        are contiguous and little-endian are not copied before they are sent.

        Args:
            array: A numpy array; an object in host memory that has `__dlpack__`, `__array__` or a buffer, such as a
                tensor of PyTorch; or an object that `numpy.asarray` converts.
            dtype: Element type to convert to; the array's by default. The daemon converts to bfloat16.

        Raises:
            BufferError: The array is in the memory of a GPU.
        """
        if isinstance(array, LazyTensor):
            tensor = self._made(self._operand("array", array))
            return tensor if dtype is None else tensor.to(dtype)
        if dtype is None:
            return self._input("array", array)
        number = dtype_number(dtype)
        if number == DTYPE_BF16:
            return self._input("array", array).to(dtype)
        return self._input("array", host_array(array, "array", NUMPY_DTYPES[number]))

    @overload
    def op(self, op: SeveralResults, /, *operands: Array, **attributes: Attribute) -> tuple[T, ...]: ...  # type: ignore[overload-overlap]
    @overload
    def op(self, op: str, /, *operands: Array, **attributes: Attribute) -> T: ...
    def op(self, op: str, /, *operands: Array, **attributes: Attribute) -> T | tuple[T, ...]:
        """Return the result of any operation of the daemon, by its name in PyTorch, or a tuple of several results.

        Args:
            op: The name, such as "gelu".
            *operands: Tensors and arrays.
            **attributes: Keyword arguments of PyTorch's function. None leaves an attribute unset.

        Raises:
            TypeError: An operand is neither a tensor nor an array, or an attribute has an unsupported type.
            ValueError: An operand is a tensor of another client.
        """
        expressions = [self._operand(f"operand {at}", operand) for at, operand in enumerate(operands)]
        results = tuple(self._made(expression) for expression in apply(op, expressions, attributes))
        return results if len(results) > 1 else results[0]

    def _mixed(self, op: str, arrays: Sequence[Array], operands: Mapping[str, Any], **attributes: Attribute) -> T:
        """Return the result of an operation of arrays, then operands, each an array or a number.

        A number is an attribute: it has no element type of its own.
        """
        operands = {name: _in_range(one) for name, one in operands.items()}
        numbers = {name: one for name, one in operands.items() if is_scalar(one)}
        arrays = [*arrays, *(one for one in operands.values() if not is_scalar(one))]
        if not arrays:
            raise TypeError(f"{op}: expected a tensor or an array, got only numbers")
        return self.op(op, *arrays, **numbers, **attributes)

    def _binary(self, op: str, left: Any, right: Any, **attributes: Attribute) -> T:
        """Return the result of an operation of two operands, of which one may be a number."""
        return self._mixed(op, [], {"input": left, "other": right}, **attributes)

    def _made(self, expression: Expression) -> T:
        return self._tensor_class(self, expression)

    def _input(self, what: str, array: Any) -> T:
        return self._made(Expression(Value.of(array, what)))

    def _operand(self, what: str, operand: Any) -> Expression:
        if isinstance(operand, LazyTensor):
            return self._owned(what, operand)
        if not is_array(operand):
            hint = "; a number is an attribute, as other=2" if is_scalar(operand) else ""
            raise TypeError(f"{what}: expected a tensor or an array, got {type(operand).__name__}{hint}")
        return self._input(what, operand)._expression

    def _owned(self, what: str, tensor: Any) -> Expression:
        if not isinstance(tensor, self._tensor_class):
            raise TypeError(f"{what}: expected {self._tensor_class.__name__}, got {type(tensor).__name__}")
        if tensor._client is not self:
            raise ValueError(f"{what}: expected a tensor of {self!r}, got one of another client, {tensor._client!r}")
        return tensor._expression

    def resident(self, tensor: ResidentTensor) -> T:
        """Return a lazy tensor of a resident one, such as `list_tensors()` returns, without a call to the daemon."""
        return self._made(Expression(tensor))

    def _uploaded_value(self, array: ArrayLike, dtype: Dtype | None) -> Value:
        """Return what an upload sends."""
        number = None if dtype is None else dtype_number(dtype)
        if number == DTYPE_BF16:
            # Only the daemon rounds to bfloat16.
            found = Value.of(array)
            if found.number != DTYPE_BF16:
                raise TypeError(f"dtype: expected an array of bfloat16 to upload as bf16, got {found.array.dtype}")
            return found
        return Value.of(array if number is None else host_array(array, "array", NUMPY_DTYPES[number]))

    def _kept(self, tensors: Sequence[T]) -> list[ResidentTensor]:
        """Return the resident tensors of those that are resident."""
        contents = [self._owned(f"tensors[{at}]", tensor).content for at, tensor in enumerate(tensors)]
        for at, content in enumerate(contents):
            if not isinstance(content, ResidentTensor):
                what = "an operation that is not computed" if isinstance(content, Result) else "an array"
                raise ValueError(f"tensors[{at}]: expected a resident tensor, as of upload() or keep(), got {what}")
        return [content for content in contents if isinstance(content, ResidentTensor)]

    def _compared(self, actual: Any, expected: Any) -> tuple[dict[str, _verify.Input], dict[str, _verify.Input]]:
        """Return the tensors of a comparison by name."""
        return (
            _verify.inputs("actual", actual, self._compare_input),
            _verify.inputs("expected", expected, self._compare_input),
        )

    def _compare_input(self, what: str, given: Any) -> _verify.Input:
        if isinstance(given, ResidentTensor):
            return given
        if not isinstance(given, LazyTensor):
            return Value.of(given, what)
        content = self._owned(what, given).content
        if isinstance(content, Result):
            raise ValueError(f"{what}: expected a tensor that is computed, got an operation; keep() computes it")
        return content

    def _launch_input(self, given: Any) -> Any:
        """Return an argument of a kernel; the resident tensor or the array of a tensor."""
        if not isinstance(given, LazyTensor):
            return given
        content = self._compare_input("argument", given)
        return content.numpy() if isinstance(content, Value) else content

    def _launch_inputs(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return arguments of a kernel, by position and by name."""
        by_name = {name: self._launch_input(one) for name, one in named.items()}
        return [self._launch_input(one) for one in arguments], by_name

    def _graph_call(self, outputs: Sequence[T], data_parallel: DataParallel | None = None) -> GraphCall:
        call = GraphCall([self._owned(f"outputs[{at}]", output) for at, output in enumerate(outputs)])
        # Without outputs to compute there is no call.
        if data_parallel is not None and call.outputs:
            call.data_parallel = encode(data_parallel, call, self._operand, self._owned)
        return call


class GraphOutputs(Generic[C, T]):
    """Outputs that are collected in a block."""

    def __init__(self, client: C, data_parallel: DataParallel | None, timeout: float | None) -> None:
        self._client = client
        self._timeout = timeout
        #: Which operands are split over which devices; read at the end of the block.
        self.data_parallel = data_parallel
        self._outputs: list[T] = []

    def output(self, tensor: T) -> T:
        """Add an output, and return it. After the block, its `numpy()` makes no call."""
        self._outputs.append(tensor)
        return tensor


def _in_range(operand: Any) -> Any:
    """Return an operand; an integer that only uint64 holds, and no attribute does, as an array."""
    is_large = is_scalar(operand) and isinstance(operand, int) and 1 << 63 <= operand < 1 << 64
    return np.uint64(operand) if is_large else operand
