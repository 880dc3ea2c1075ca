"""The strings that name the values of the protocol's enums in signatures; an empty one means the daemon's default."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

from ._message import is_among

Metric: TypeAlias = Literal["cosine", "dot", "squared_l2"]
#: Element types of the copy of a collection that a GPU scans.
Storage: TypeAlias = Literal["", "f32", "f16", "bf16", "i8"]
Fusion: TypeAlias = Literal["relative_score", "reciprocal_rank"]
Pooling: TypeAlias = Literal["", "cls", "mean", "max", "last", "weighted_mean", "none"]
TruncationSide: TypeAlias = Literal["", "right", "left"]
LongInput: TypeAlias = Literal["", "truncate", "error", "chunk"]
Precision: TypeAlias = Literal["", "bf16", "f16", "f32"]
#: Element types of vectors.
OutputType: TypeAlias = Literal["f32", "f16", "bf16", "int8", "binary"]
DeviceKind: TypeAlias = Literal["", "cpu", "cuda"]
DeviceState: TypeAlias = Literal["", "ready", "lost"]
#: "unknown" is one that a newer daemon has.
OutputVerdict: TypeAlias = Literal["passed", "mismatch", "shape_mismatch", "dtype_mismatch", "unknown"]
#: Why a pair of elements fails.
MismatchKind: TypeAlias = Literal["tolerance", "nan", "infinity", "zero_sign", "unknown"]


def number(argument: str, enum: Any, prefix: str, choices: Any, name: str) -> Any:
    """Return the number of a value of an enum. `choices` is one of the types above."""
    names: tuple[str, ...] = get_args(choices)
    if not is_among(name, names):
        raise ValueError(f"{argument}: expected one of {', '.join(filter(None, names))}, got {name!r}")
    return enum.Value(f"{prefix}_{name.upper() or 'UNSPECIFIED'}")
