"""Graphs as files, which a daemon serves as models of the Open Inference Protocol."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._expression import Application, Expression, Result, known_type
from ._graph import GraphCall, in_order
from ._inference import infer
from ._lazy import LazyTensor
from ._proto import tensor_pb2 as pb
from ._tensor import Value, dtype_number
from ._types import OperandError, TensorType

# An extent of the inputs that no operation has by chance, to see which extents follow it.
_OTHER_EXTENT = 1_000_003


def save_graph(
    path: str | os.PathLike[str],
    *,
    inputs: Mapping[str, LazyTensor],
    outputs: Mapping[str, LazyTensor],
    any_extent: Mapping[str, Sequence[int]] | None = None,
) -> None:
    """Save the operations that outputs need as a file, without a call to the daemon.

    A daemon serves the file `NAME.graph` in its folder `models.graphs` as the model NAME of the Open Inference
    Protocol. The file is replaced at once, so that a daemon reads the old one or the new one.

    Args:
        path: The file.
        inputs: The tensors that requests give, by their names in requests: tensors of arrays, whose elements are
            examples and are not saved. All other arrays are saved, as weights are.
        outputs: The tensors to return, by their names in responses.
        any_extent: The dimensions of inputs that may have any extent, such as {"x": [0]} for batches of any size.

    Raises:
        ValueError: The outputs do not need an input; an output is computed already; a tensor is resident; or the
            operations fix an extent that may be any.
    """
    graph = _saved(inputs, outputs, any_extent or {})
    target = Path(path)
    descriptor, scratch = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(graph.SerializeToString())
        # Readable to a daemon of another user, as a file that open() creates.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(scratch, 0o666 & ~umask)
        os.replace(scratch, target)
    except BaseException:
        os.unlink(scratch)
        raise


def _saved(
    inputs: Mapping[str, LazyTensor], outputs: Mapping[str, LazyTensor], any_extent: Mapping[str, Sequence[int]]
) -> pb.SavedGraph:
    if unknown := any_extent.keys() - inputs.keys():
        raise ValueError(f"any_extent: expected names of inputs, got {', '.join(sorted(unknown))}")
    results = {name: _result(name, output) for name, output in outputs.items()}
    call = GraphCall(list(results.values()))
    examples = {name: _example(name, tensor) for name, tensor in inputs.items()}
    graph = call.saved(examples)
    free = {name: _dimensions(name, examples[name].type, dims) for name, dims in any_extent.items()}
    replaced: dict[object, TensorType] = {
        example.location: _with_extents(example.type, free.get(name, ()), _OTHER_EXTENT)
        for name, example in examples.items()
    }
    types = _types(call, replaced)
    for saved in graph.inputs:
        _describe(saved, _with_extents(examples[saved.name].type, free.get(saved.name, ()), -1))
    for name, expression in results.items():
        known, other = known_type(expression), types[expression]
        if known is None:
            raise ValueError(f"outputs[{name!r}]: its type is known once it is computed")
        shape = tuple(-1 if one != two else one for one, two in zip(known.shape, other.shape, strict=True))
        _describe(graph.outputs.add(name=name, value=call.output_name(expression)), TensorType(known.dtype, shape))
    return graph


def _result(name: str, output: LazyTensor) -> Expression:
    if not isinstance(output._expression.content, Result):
        raise ValueError(f"outputs[{name!r}]: expected an operation that is not computed yet, got {output!r}")
    return output._expression


def _example(name: str, tensor: LazyTensor) -> Value:
    content = tensor._expression.content
    if not isinstance(content, Value):
        raise ValueError(f"inputs[{name!r}]: expected a tensor of an array, got {tensor!r}")
    return content


def _dimensions(name: str, of: TensorType, dims: Sequence[int]) -> set[int]:
    rank = len(of.shape)
    if wrong := [dim for dim in dims if not -rank <= dim < rank]:
        raise ValueError(f"any_extent[{name!r}]: expected dimensions of the shape {of.shape}, got {wrong[0]}")
    return {dim % rank for dim in dims}


def _with_extents(of: TensorType, dims: Any, extent: int) -> TensorType:
    return TensorType(of.dtype, tuple(extent if dim in dims else one for dim, one in enumerate(of.shape)))


def _types(call: GraphCall, replaced: Mapping[object, TensorType]) -> dict[Expression, TensorType]:
    """Return the types of all expressions, with other types of some inputs."""
    types: dict[Expression, TensorType] = {}
    results: dict[Application, Sequence[TensorType]] = {}
    for expression, content in in_order(call.outputs):
        if not isinstance(content, Result):
            types[expression] = replaced.get(content.location, content.type)
            continue
        application = content.of
        if application not in results:
            results[application] = _inferred(application, types.__getitem__)
        types[expression] = results[application][content.nth]
    return types


def _inferred(application: Application, of: Callable[[Expression], TensorType]) -> Sequence[TensorType]:
    file, line = application.place
    where = f"{application.op} at {file}:{line}"
    try:
        types = infer(application.op, [of(operand) for operand in application.operands], application.attributes)
    except OperandError as error:
        raise ValueError(f"any_extent: {where} does not take any extent: {error}") from None
    if types is None:
        raise ValueError(f"{where}: the type of its result is known once it is computed")
    return types


def _describe(tensor: pb.SavedGraphInput | pb.SavedGraphOutput, described: TensorType) -> None:
    tensor.dtype = dtype_number(described.dtype)
    tensor.shape.extend(described.shape)
