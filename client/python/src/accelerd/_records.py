"""Documents of other libraries as points: ids that are any text, texts, and metadata of any kind.

A payload has the text, each value of the metadata that the daemon can filter by as a field of the same name, with dots
for nested ones, and what those fields do not tell in fields of the names below.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._point_results import Hit, Point

#: The id, where it is no UUID; the metadata as JSON, where fields do not tell it all; what an adapter adds; whether the
#: vector is only there because a point needs one.
_ID, _METADATA, _EXTRA, NO_VECTOR = "_id", "_metadata", "_extra", "_no_vector"
RESERVED = frozenset({_ID, _METADATA, _EXTRA, NO_VECTOR})
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: The namespace of the UUIDs of other ids: that of https://github.com/accelerd/accelerd, by RFC 9562.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/accelerd/accelerd")


class Record(NamedTuple):
    """A document."""

    id: str
    text: str | None
    metadata: dict[str, Any]
    #: What an adapter keeps besides: of the types of JSON.
    extra: dict[str, Any] | None = None
    vector: NDArray[np.float32] | None = None
    score: float = math.nan


def point_id(id: str) -> str:
    """Return the id of a point: the same for a UUID, and for any other text a UUID that is computed from it."""
    if not isinstance(id, str):
        raise TypeError(f"ids: expected str, got {type(id).__name__} {id!r}")
    return id if _UUID.fullmatch(id) else str(uuid.uuid5(_NAMESPACE, id))


def plain(value: Any) -> Any:
    """Return a scalar of numpy as one of Python, and other values as they are."""
    return value.item() if isinstance(value, np.generic) else value


def to_payload(record: Record, text_field: str) -> dict[str, Any]:
    """Return the payload of a document.

    Raises:
        TypeError: The metadata has a value that JSON does not have.
        ValueError: A text has a lone surrogate.
    """
    metadata = _as_json(record.metadata, "metadata")
    reserved = RESERVED | {text_field}
    leaves = {name: value for name, value in _leaves(metadata, "") if name not in reserved}
    payload = dict(leaves)
    if leaves.keys() != metadata.keys():
        payload[_METADATA] = json.dumps(metadata, ensure_ascii=False)
    if record.extra:
        payload[_EXTRA] = json.dumps(_as_json(record.extra, "extra"), ensure_ascii=False)
    if record.text is not None:
        payload[text_field] = record.text
    if point_id(record.id) != record.id:
        payload[_ID] = record.id
    return payload


def from_point(point: Point | Hit, text_field: str) -> Record:
    """Return the document of a point, which may be one that another program wrote."""
    payload = dict(point.payload)
    text, given = payload.pop(text_field, None), payload.pop(_METADATA, None)
    id, extra, has_no_vector = payload.pop(_ID, str(point.id)), payload.pop(_EXTRA, None), payload.pop(NO_VECTOR, False)
    vector = point.vector if isinstance(point, Point) and not has_no_vector else None
    return Record(
        str(id),
        None if text is None else str(text),
        payload if given is None else json.loads(str(given)),
        None if extra is None else json.loads(str(extra)),
        vector,
        point.score if isinstance(point, Hit) else math.nan,
    )


def nested(metadata: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or of keys of nested metadata that are joined by dots; None if there is none."""
    if key in metadata:
        return metadata[key]
    first, dot, rest = key.partition(".")
    while dot:
        if isinstance(inner := metadata.get(first), Mapping) and (found := nested(inner, rest)) is not None:
            return found
        more, dot, rest = rest.partition(".")
        first = f"{first}.{more}"
    return None


def _leaves(metadata: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Iterate over the values that payloads can have."""
    for key, value in metadata.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{name}.")
        elif name and _is_payload_value(value):
            yield name, value


def _is_payload_value(value: Any) -> bool:
    if isinstance(value, (str, bool)):
        return True
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    return isinstance(value, float) and math.isfinite(value)


def _as_json(value: Any, what: str) -> Any:
    """Return a value of the types of JSON; numpy's scalars and arrays, tuples and sets become those."""
    value = value.tolist() if isinstance(value, np.ndarray) else plain(value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{what}: expected keys of type str, got {type(key).__name__} {key!r}")
        return {key: _as_json(one, f"{what}[{key!r}]") for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(one, f"{what}[{at}]") for at, one in enumerate(value)]
    raise TypeError(
        f"{what}: expected a value of JSON, as str, int, float, bool, None, list or dict, got {type(value).__name__}; "
        "str() of it, or isoformat() of a date, is one"
    )
