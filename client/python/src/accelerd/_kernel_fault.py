"""Faults of kernels."""

from __future__ import annotations

from typing import Any

from ._kernel_program import Program
from ._proto import kernel_pb2 as pb

_PREFIX = "KERNEL_FAULT_KIND_"
_TEXTS = {
    "out_of_bounds": "an index is out of bounds",
    "division_by_zero": "division by zero",
    "assertion": "an assertion failed",
    "invalid_value": "a value for which the dialect defines no result",
    "loop_budget": "more iterations than the loop budget",
}


class KernelFault(Exception):  # noqa: N818
    """A kernel that ended early. Its text has the reason, the thread, and the place in the file of the function."""

    def __init__(
        self,
        kind: str,
        *,
        kernel: str,
        thread: int,
        line: int = 0,
        column: int = 0,
        filename: str | None = None,
        text: str = "",
        array: str = "",
        dimension: int = 0,
        index: int = 0,
        extent: int = 0,
        variable: str = "",
    ) -> None:
        #: "out_of_bounds", "division_by_zero", "assertion", "invalid_value" or "loop_budget".
        self.kind = kind
        #: Name of the kernel.
        self.kernel = kernel
        #: Number of the thread, in row-major order; of the row, in the dialect "python".
        self.thread = thread
        #: Line from 1, 0 if it is unknown; and column in characters from 0.
        self.line = line
        self.column = column
        #: The file of the function; None for a source of text, whose lines are its own.
        self.filename = filename
        #: The text of the line; empty if it is unknown.
        self.text = text
        #: Of an access out of bounds: the array, the dimension from 0, the index, and the extent of the dimension;
        #: empty if the index is that of a vector, a matrix or a slice.
        self.array = array
        self.dimension = dimension
        self.index = index
        self.extent = extent
        #: Of an invalid value: the variable, if it was read before it was assigned.
        self.variable = variable
        super().__init__(self._message())

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: value for name, value in vars(self).items() if name != "kind" and not name.startswith("_")}
        return _restored, (self.kind, fields)

    def _message(self) -> str:
        what = _TEXTS.get(self.kind, self.kind)
        if self.variable:
            what = f"variable {self.variable!r} is read before it is assigned"
        elif self.kind == "out_of_bounds" and self.array:
            what = f"index {self.index} is out of bounds for dimension {self.dimension} of {self.array!r}"
            what += f" with extent {self.extent}"
        lines = [f"{self.kernel}: {what}, in thread {self.thread}"]
        if self.line:
            file = "" if self.filename is None else f'File "{self.filename}", '
            lines.append(f"  {file}line {self.line}")
        if self.text.strip():
            indent = len(self.text) - len(self.text.lstrip())
            lines += [f"    {self.text.strip()}", " " * (4 + max(self.column - indent, 0)) + "^"]
        return "\n".join(lines)


def _restored(kind: str, fields: dict[str, Any]) -> KernelFault:
    return KernelFault(kind, **fields)


def fault(message: pb.KernelFault, kernel: str, program: Program | None) -> KernelFault:
    """Return the exception of a fault, with the place in the user's file if the program has been sent from here."""
    known = message.kind in pb.KernelFaultKind.values()
    kind = pb.KernelFaultKind.Name(message.kind) if known else "unknown"
    filename, line, column, text = None, message.line, message.column, ""
    if program is not None and message.line:
        filename, line, column = program.module.place(kernel, message.line, message.column)
        text = program.module.line(message.line)
    return KernelFault(
        kind.removeprefix(_PREFIX).lower(),
        kernel=kernel,
        thread=message.thread,
        line=line,
        column=column,
        filename=filename,
        text=text,
        array=message.array,
        dimension=message.dimension,
        index=message.index,
        extent=message.extent,
        variable=message.variable,
    )
