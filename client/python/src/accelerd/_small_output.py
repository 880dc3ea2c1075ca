"""Outputs of small numbers, of which an absolute tolerance says little."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ._proto import kernel_pb2 as pb


@dataclass(frozen=True)
class SmallOutput:
    """An output most of whose expected numbers other than 0 are below `atol`, which would accept zeros instead."""

    output: str
    #: The absolute tolerance.
    atol: float
    #: The largest absolute value of the finite expected numbers.
    max_norm: float
    #: The largest error that passes, as a multiple of `max_norm`; None if the call sets `atol`, which then decides.
    max_norm_rtol: float | None

    def __str__(self) -> str:
        what = f"Most expected numbers of {self.output!r} are smaller than atol={self.atol}"
        if self.max_norm_rtol is None:
            return f"{what}, which accepts zeros instead"
        bound = f"errors must be at most {self.max_norm_rtol} of the largest, {self.max_norm}"
        return f"{what}: {bound}, unless atol is set"


def received_small_outputs(messages: Iterable[pb.SmallOutput]) -> tuple[SmallOutput, ...]:
    """Return the outputs of messages."""
    return tuple(
        SmallOutput(one.output, one.atol, one.max_norm, one.max_norm_rtol if one.HasField("max_norm_rtol") else None)
        for one in messages
    )
