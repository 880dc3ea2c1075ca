"""Calls of TensorService: the graph of all operations that some outputs need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from ._call import Operation, Settings
from ._errors import InvalidArgumentError, malformed, too_large
from ._expression import Application, Content, Expression, Result, describe, encode_attribute
from ._message import message
from ._methods import TensorService
from ._proto import tensor_pb2 as pb
from ._resident import ResidentTensor, duration
from ._tensor import Value
from ._wire import Chunk, field, size

#: For calls that keep no outputs: others would keep them twice.
EXECUTE = replace(TensorService.EXECUTE, is_idempotent=True)

# Bytes of a node and of an input besides their contents, at most.
_NODE_OVERHEAD = 16
_INPUT_OVERHEAD = 128

_WORD = re.compile(r"\w+")


class Keep(NamedTuple):
    """How outputs stay on the daemon: an empty device is the default, no time to live the daemon's."""

    device: str
    ttl: float | None


class GraphCall:
    """One call that computes expressions. Results that are there already enter it as inputs."""

    def __init__(self, outputs: Sequence[Expression]) -> None:
        self._asked = outputs
        #: Those to compute, each once.
        self.outputs = [one for one in dict.fromkeys(outputs) if isinstance(one.content, Result)]
        self._by_name: dict[str, Expression] = {}
        self._names: dict[Expression, str] = {}
        self._inputs: dict[str, Value | ResidentTensor] = {}
        # The nodes of operations, whose results share them.
        self._nodes: dict[Application, pb.TensorNode] = {}
        # Operands that several expressions read from the same memory are sent once.
        self._located: dict[object, str] = {}
        #: How the call runs on several devices; None for one.
        self.data_parallel: pb.DataParallel | None = None
        for expression, content in in_order(self.outputs):
            if not isinstance(content, Result):
                name = self._located.setdefault(content.location, f"input_{len(self._names)}")
                self._inputs.setdefault(name, content)
            else:
                if content.of not in self._nodes:
                    self._nodes[content.of] = self._node(f"{content.of.op}_{len(self._names)}", content.of)
                node = self._nodes[content.of].name
                self._by_name.setdefault(node, expression)
                name = f"{node}:{content.nth}" if content.nth else node
            self._names[expression] = name
            self._by_name.setdefault(name, expression)

    def _node(self, name: str, content: Application) -> pb.TensorNode:
        inputs = [self._names[operand] for operand in content.operands]
        attributes = {key: encode_attribute(value) for key, value in content.attributes.items()}
        return pb.TensorNode(name=name, op=content.op, inputs=inputs, attributes=attributes)

    def input_name(self, content: Value | ResidentTensor) -> str | None:
        """Return the name of an operand; None if no output needs it."""
        return self._located.get(content.location)

    def output_name(self, output: Expression) -> str | None:
        """Return the name of an output to compute; None of others."""
        return self._names[output] if output in self.outputs else None

    def large_inputs(self, settings: Settings) -> list[tuple[str, Value]]:
        """Return the largest arrays, without which the request fits into a message, by the names of their inputs."""
        arrays = {name: value for name, value in self._inputs.items() if isinstance(value, Value)}
        nodes = sum(node.ByteSize() + _NODE_OVERHEAD for node in self._nodes.values())
        left = settings.max_message_bytes - nodes - _INPUT_OVERHEAD * len(self._inputs)
        if left < 0:
            # The operations alone exceed a message.
            return []
        large = []
        for name, value in sorted(arrays.items(), key=lambda item: item[1].array.nbytes):
            left -= value.array.nbytes
            if left < 0 and value.array.nbytes:
                large.append((name, value))
        return large

    def replace_input(self, name: str, uploaded: ResidentTensor) -> None:
        """Read an input from the daemon in this call."""
        self._inputs[name] = uploaded

    def operation(self, settings: Settings, keep: Keep | None = None) -> Operation[None]:
        """Return the call. Its results, or the tensors that it keeps, replace the operations of the outputs."""
        outputs = [pb.TensorOutput(name=self._names[output], keep=keep is not None) for output in self.outputs]
        request = pb.ExecuteRequest(nodes=self._nodes.values(), outputs=outputs, data_parallel=self.data_parallel)
        if keep is not None:
            request.MergeFrom(message(pb.ExecuteRequest, device=keep.device, keep_ttl=duration(keep.ttl)))
        chunks: list[Chunk] = [request.SerializeToString()]
        for name, value in self._inputs.items():
            if isinstance(value, ResidentTensor):
                resident = pb.TensorInput(name=name, handle=value.handle).SerializeToString()
                chunks += field(pb.ExecuteRequest.INPUTS_FIELD_NUMBER, [resident])
                continue
            header = pb.TensorInput(name=name).SerializeToString()
            chunks += field(
                pb.ExecuteRequest.INPUTS_FIELD_NUMBER,
                [header, *field(pb.TensorInput.VALUE_FIELD_NUMBER, value.encode())],
            )
        if size(chunks) > settings.max_message_bytes:
            what = f"a graph of {len(self._nodes)} operations"
            hint = "; keep() computes a part of it, whose results stay on the daemon"
            raise too_large(what, size(chunks), settings.max_message_bytes, hint)
        method = EXECUTE if keep is None else TensorService.EXECUTE
        return Operation(method, b"".join(chunks), self._received)

    def saved(self, examples: Mapping[str, Value]) -> pb.SavedGraph:
        """Return a graph of the operations with these inputs, without types and outputs. Other arrays are constants."""
        saved = pb.SavedGraph(nodes=self._nodes.values())
        given: dict[str, str] = {}
        for name, example in examples.items():
            value = self.input_name(example)
            if value is None or value in given:
                other = "no output needs it" if value is None else f"it is the array of {given[value]!r}"
                raise ValueError(f"inputs[{name!r}]: expected an array of its own that outputs need; {other}")
            given[value] = name
            saved.inputs.add(name=name, value=value)
        for name, content in self._inputs.items():
            if isinstance(content, ResidentTensor):
                raise ValueError(f"outputs: expected operations on arrays, got one on a resident tensor, {content}")
            if name not in given:
                saved.constants.add(name=name, value=pb.Tensor.FromString(b"".join(content.encode())))
        return saved

    def _received(self, response: pb.ExecuteResponse) -> None:
        contents: list[Value | ResidentTensor] = [Value.received(tensor) for tensor in response.outputs]
        contents += [ResidentTensor.received(tensor) for tensor in response.kept]
        if len(contents) != len(self.outputs):
            raise malformed(f"{len(contents)} outputs, expected {len(self.outputs)}")
        for expression, content in zip(self.outputs, contents, strict=True):
            expression.content = content

    def results(self) -> list[Value | ResidentTensor]:
        """Return what all expressions are, which are computed."""
        return [one.content for one in self._asked if not isinstance(one.content, Result)]

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
    if not isinstance(content, Result):
        return describe(expression)
    file, line = content.of.place
    return f"{describe(expression)} at {file}:{line}"


def in_order(outputs: Sequence[Expression]) -> Iterator[tuple[Expression, Content]]:
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


def _operands(content: Content) -> tuple[Expression, ...]:
    return content.of.operands if isinstance(content, Result) else ()
