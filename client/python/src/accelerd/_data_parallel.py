"""Data-parallel calls: which operands are split over which devices, and how outputs are combined."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ._expression import Expression, Result, describe
from ._graph import GraphCall
from ._lazy import Array, LazyTensor
from ._proto import tensor_pb2 as pb
from ._resident import ResidentTensor
from ._tensor import Value


@dataclass(frozen=True)
class DataParallel:
    """How a call runs on several devices, each with a part of the operands.

    Every device gets the operands that are not split. A resident tensor is read in place; another device reads the copy
    that `Client.copy()` made there, or a copy for the call if there is none. Results that are kept are combined on the
    first device, and stay there.
    """

    #: Arrays and resident tensors to split, all of one extent along dimension 0, or dim of (tensor, dim).
    split: Sequence[Array | tuple[Array, int]]
    #: The device of each part, such as ("cuda:0", "cuda:1"). One that is named twice gets two parts. Empty means all
    #: GPUs in use, or the CPU if there is none.
    devices: Sequence[str] = ()
    #: Outputs that are summed over the parts.
    sum: Sequence[LazyTensor] = ()
    #: Outputs that are averaged over the parts, weighted by their sizes: losses that are means, and their gradients.
    mean: Sequence[LazyTensor] = ()
    #: Outputs, as (tensor, dim), that are concatenated along a dimension. All others are along dimension 0.
    concat: Sequence[tuple[LazyTensor, int]] = ()


def encode(
    options: DataParallel,
    call: GraphCall,
    operand: Callable[[str, Any], Expression],
    owned: Callable[[str, Any], Expression],
) -> pb.DataParallel:
    """Return the options as a message, with the names of a call.

    `operand` returns the expression of an array or a tensor, `owned` that of a tensor; both raise for a tensor of
    another client, with the name of the argument.
    """
    if isinstance(options.devices, str):
        raise TypeError(f"devices: expected a sequence of str, got {options.devices!r}")
    message = pb.DataParallel(devices=options.devices)
    for at, given in enumerate(options.split):
        what = f"split[{at}]"
        tensor, dim = given if isinstance(given, tuple) else (given, 0)
        name = call.input_name(_content(what, operand(what, tensor)))
        if name is None:
            raise ValueError(f"{what}: expected an operand of the outputs, got {tensor!r}")
        message.inputs.add(name=name, dim=operator.index(dim))
    for what, output, combination, dim in _combined(options):
        expression = owned(what, output)
        name = call.output_name(expression)
        if name is not None:
            message.outputs.add(name=name, combination=combination, dim=operator.index(dim))
        elif isinstance(expression.content, Result):
            raise ValueError(f"{what}: expected an output of the call, got {describe(expression)}")
    return message


def _combined(options: DataParallel) -> Iterator[tuple[str, LazyTensor, pb.ShardCombination, int]]:
    for what, outputs, combination in (
        ("sum", options.sum, pb.SHARD_COMBINATION_SUM),
        ("mean", options.mean, pb.SHARD_COMBINATION_MEAN),
    ):
        for at, output in enumerate(outputs):
            yield f"{what}[{at}]", output, combination, 0
    for at, (output, dim) in enumerate(options.concat):
        yield f"concat[{at}]", output, pb.SHARD_COMBINATION_CONCAT, dim


def _content(what: str, expression: Expression) -> Value | ResidentTensor:
    content = expression.content
    if isinstance(content, Result):
        raise ValueError(f"{what}: expected an array or a resident tensor, got {describe(expression)}")
    return content
