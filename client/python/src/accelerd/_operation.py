"""What is known of an operation of tensors before it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Operation:
    """An entry of the table of operations, `_operations`. Its rules are those of `_inference`, by name."""

    #: Rules of shape and element type of each result; empty where only the daemon knows the types.
    results: tuple[tuple[str, str], ...] = ()
    #: The number of operands, numbers in attributes included, of an elementwise operation.
    operands: int | None = None
    #: The attributes whose numbers are operands.
    scalars: tuple[str, ...] = ()
    #: The position of the operand that is a condition, which has no part in the common type.
    condition: int | None = None
    #: The common types that an elementwise operation takes: "any", "numbers", "bits" or "integers".
    accepts: str = "any"
    #: The number of results, unless there are conditions and all hold.
    count: int = 1
    #: The number of results if all conditions hold.
    most: int = 1
    #: Attributes that are true, by default as given here. None stands for an attribute that is set.
    conditions: tuple[tuple[str, bool | None], ...] = ()

    def result_count(self, attributes: Mapping[str, Any]) -> int:
        """Return how many results a call has."""
        if not self.conditions:
            return self.count
        holds = (
            name in attributes if default is None else bool(attributes.get(name, default))
            for name, default in self.conditions
        )
        return self.most if all(holds) else self.count
