"""Calls of TensorService: the graph of all operations that some outputs need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from ._call import Method, Operation, Settings
from ._errors import InvalidArgumentError, malformed, too_large
from ._expression import Application, Expression, describe, encode_attribute
from ._proto import tensor_pb2 as pb
from ._tensor import Value
from ._wire import Chunk, field, size

EXECUTE = Method("TensorService", "Execute", pb.ExecuteResponse)

_WORD = re.compile(r"\w+")


class GraphCall:
    """One call that computes expressions. Results that are there already enter it as inputs."""

    def __init__(self, outputs: Sequence[Expression]) -> None:
        self._asked = outputs
        #: Those to compute, each once.
        self.outputs = [one for one in dict.fromkeys(outputs) if isinstance(one.content, Application)]
        self._by_name: dict[str, Expression] = {}
        self._names: dict[Expression, str] = {}
        self._inputs: dict[str, Value] = {}
        self._nodes: list[pb.TensorNode] = []
        # Operands that several expressions read from the same memory are sent once.
        located: dict[object, str] = {}
        for expression, content in _in_order(self.outputs):
            if isinstance(content, Value):
                name = located.setdefault(content.location, f"input_{len(self._names)}")
                self._inputs.setdefault(name, content)
            else:
                name = f"{content.op}_{len(self._names)}"
                self._nodes.append(self._node(name, content))
            self._names[expression] = name
            self._by_name.setdefault(name, expression)

    def _node(self, name: str, content: Application) -> pb.TensorNode:
        inputs = [self._names[operand] for operand in content.operands]
        attributes = {key: encode_attribute(value) for key, value in content.attributes.items()}
        return pb.TensorNode(name=name, op=content.op, inputs=inputs, attributes=attributes)

    def operation(self, settings: Settings) -> Operation[None]:
        """Return the call. Its results replace the operations of the outputs."""
        outputs = [pb.TensorOutput(name=self._names[output]) for output in self.outputs]
        chunks: list[Chunk] = [pb.ExecuteRequest(nodes=self._nodes, outputs=outputs).SerializeToString()]
        for name, value in self._inputs.items():
            header = pb.TensorInput(name=name).SerializeToString()
            chunks += field(
                pb.ExecuteRequest.INPUTS_FIELD_NUMBER,
                [header, *field(pb.TensorInput.VALUE_FIELD_NUMBER, value.encode())],
            )
        if size(chunks) > settings.max_message_bytes:
            shown = ", ".join(repr(value) for value in list(self._inputs.values())[:4])
            what = f"a graph with {len(self._inputs)} inputs ({shown}{', ...' if len(self._inputs) > 4 else ''})"
            raise too_large(what, size(chunks), settings.max_message_bytes)
        return Operation(EXECUTE, b"".join(chunks), self._keep)

    def _keep(self, response: pb.ExecuteResponse) -> None:
        if len(response.outputs) != len(self.outputs):
            raise malformed(f"{len(response.outputs)} outputs, expected {len(self.outputs)}")
        values = [Value.received(tensor) for tensor in response.outputs]
        for expression, value in zip(self.outputs, values, strict=True):
            expression.content = value

    def results(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays of all expressions, which are computed."""
        return tuple(one.content.numpy() for one in self._asked if isinstance(one.content, Value))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Add to an error of the daemon the expression of the node that it names."""
        try:
            yield
        except InvalidArgumentError as refused:
            texts = [one for violation in refused.violations for one in (violation.field, violation.description)]
            words = _WORD.findall(" ".join([*texts, refused.message]))
            name = next((word for word in words if word in self._by_name), None)
            if name is None:
                raise
            message = f"{refused.message}; {name} is {_located(self._by_name[name])}"
            raise InvalidArgumentError(refused.code, message, refused.details) from None


def _located(expression: Expression) -> str:
    content = expression.content
    if isinstance(content, Value):
        return describe(expression)
    file, line = content.place
    return f"{describe(expression)} at {file}:{line}"


def _in_order(outputs: Sequence[Expression]) -> Iterator[tuple[Expression, Value | Application]]:
    """Iterate over all expressions that the outputs need, each once and after its operands."""
    done: set[Expression] = set()
    stack = [(output, output.content, iter(_operands(output.content))) for output in reversed(outputs)]
    while stack:
        expression, content, operands = stack[-1]
        if expression in done:
            stack.pop()
            continue
        operand = next((one for one in operands if one not in done), None)
        if operand is None:
            stack.pop()
            done.add(expression)
            yield expression, content
        else:
            # A result that arrives while the graph is read does not change what was read of it.
            stack.append((operand, operand.content, iter(_operands(operand.content))))


def _operands(content: Value | Application) -> tuple[Expression, ...]:
    return content.operands if isinstance(content, Application) else ()
