"""Ids and payloads as columns, which are much cheaper than a message per point."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._dlpack import refuse_masked
from ._errors import malformed
from ._message import check_encodable
from ._proto import similarity_pb2 as pb
from ._wire import Chunk, field

Id: TypeAlias = "int | uuid.UUID | str"
Value: TypeAlias = "str | int | float | bool"
Payload: TypeAlias = "Mapping[str, Value]"
#: A list of dicts, one per point; or a dict of columns, each with a value or None for every point.
Payloads: TypeAlias = "Sequence[Payload] | Mapping[str, Sequence[Value | None] | NDArray[Any]]"

_INTEGERS, _DOUBLES, _BOOLS, _STRINGS = "ints", "doubles", "bools", "strings"
_TYPES: dict[type, str] = {int: _INTEGERS, float: _DOUBLES, bool: _BOOLS, str: _STRINGS}
_DTYPES = {_INTEGERS: np.dtype("<i8"), _DOUBLES: np.dtype("<f8"), _BOOLS: np.dtype("?")}
_KINDS = {"i": _INTEGERS, "u": _INTEGERS, "f": _DOUBLES, "b": _BOOLS}


class Ids:
    """Ids of points, all numbers or all UUIDs."""

    def __init__(self, ids: Iterable[Id] | NDArray[Any]) -> None:
        if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
            raise TypeError(f"ids: expected a list of int, UUID or str, got {type(ids).__name__}")
        #: uint64 numbers, or UUIDs as text.
        self.values: NDArray[np.uint64] | list[str] = _numbers(ids) if _is_numeric(ids) else _listed(list(ids))

    def __len__(self) -> int:
        return len(self.values)

    def unpacked(self) -> pb.PointIds:
        """Return all ids as repeated fields, the form that filters need."""
        if isinstance(self.values, list):
            return pb.PointIds(uuids=self.values)
        return pb.PointIds(numbers=self.values.tolist())

    def message(self) -> pb.PointIds:
        """Return all ids, packed if they are numbers."""
        if isinstance(self.values, list):
            return pb.PointIds(uuids=self.values)
        return pb.PointIds(packed_numbers=self.values.tobytes())

    def encode(self, start: int, stop: int) -> list[Chunk]:
        """Serialize a PointIds of a range of the ids."""
        if isinstance(self.values, list):
            return [pb.PointIds(uuids=self.values[start:stop]).SerializeToString()]
        # `repeated fixed64` is packed: its encoding is an array.
        return field(pb.PointIds.NUMBERS_FIELD_NUMBER, [self.values[start:stop].tobytes()])

    def duplicate(self) -> Id | None:
        """Return a duplicate id, if there is one."""
        if isinstance(self.values, list):
            seen: set[str] = set()
            return next((one for one in self.values if one in seen or seen.add(one)), None)  # type: ignore[func-returns-value]
        ordered = np.sort(self.values)
        again = ordered[1:][ordered[1:] == ordered[:-1]]
        return int(again[0]) if len(again) else None


def _is_numeric(ids: Iterable[Any]) -> bool:
    return isinstance(ids, range) or (isinstance(ids, np.ndarray) and ids.dtype.kind in "iu")


def _listed(ids: list[Any]) -> NDArray[np.uint64] | list[str]:
    kinds = {type(one) for one in ids}
    if kinds <= {int}:
        return _numbers(ids)
    numeric = [isinstance(one, (int, np.integer)) and not isinstance(one, bool) for one in ids]
    if all(numeric):
        return _numbers([int(one) for one in ids])
    if any(numeric):
        raise ValueError("ids: expected numbers or UUIDs, got both")
    for at, one in enumerate(ids):
        if not isinstance(one, (str, uuid.UUID)):
            raise TypeError(f"ids[{at}]: expected int, UUID or str, got {type(one).__name__}")
        if isinstance(one, str):
            check_encodable(f"ids[{at}]", one)
    return [str(one) for one in ids]


def _numbers(ids: Any) -> NDArray[np.uint64]:
    refuse_masked(ids, "ids")
    if isinstance(ids, np.ndarray) and ids.ndim != 1:
        raise ValueError(f"ids: expected a 1-D array, got shape {ids.shape}")
    if isinstance(ids, range):
        ids = np.arange(ids.start, ids.stop, ids.step)
    if isinstance(ids, np.ndarray):
        if ids.dtype.kind == "i" and len(ids) and ids.min() < 0:
            raise ValueError(f"ids: expected numbers from 0 to 2**64 - 1, got {ids.min()}")
        return ids.astype("<u8", copy=False)
    try:
        return np.array(ids, dtype="<u8")
    except OverflowError:
        wrong = next(one for one in ids if not 0 <= one < 1 << 64)
        raise ValueError(f"ids: expected numbers from 0 to 2**64 - 1, got {wrong}") from None


def read_ids(ids: pb.PointIds) -> list[int | str]:
    """Decode the ids of a response."""
    if ids.packed_numbers:
        numbers: list[int | str] = _view(ids.packed_numbers, "<u8").tolist()
        return numbers
    if ids.packed_uuids:
        if len(ids.packed_uuids) % 16:
            raise malformed(f"UUIDs of {len(ids.packed_uuids)} bytes")
        digits = ids.packed_uuids.hex()
        return [_uuid(digits[at : at + 32]) for at in range(0, len(digits), 32)]
    return [*ids.numbers, *ids.uuids]


def _uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class PayloadTable:
    """Payloads of points as columns by field."""

    def __init__(self, payloads: Payloads, count: int) -> None:
        if isinstance(payloads, Mapping):
            self._columns = {name: column for name, column in payloads.items()}
            lengths = {name: len(column) for name, column in self._columns.items()}
            for name, length in lengths.items():
                if length != count:
                    raise ValueError(f"payloads[{name!r}]: expected {count} values, one per id, got {length}")
        else:
            if len(payloads) != count:
                raise ValueError(f"payloads: expected {count}, one per id, got {len(payloads)}")
            self._columns = _by_field(payloads)
        for name in self._columns:
            if not isinstance(name, str):
                raise TypeError(f"payloads: expected field names of type str, got {type(name).__name__}")
            check_encodable(f"payloads[{name!r}]: name", name)

    def message(self, start: int, stop: int) -> pb.PayloadColumns:
        """Return the payloads of a range of the points."""
        columns = pb.PayloadColumns()
        for name, column in self._columns.items():
            _add_column(columns, name, column[start:stop])
        return columns


def _by_field(payloads: Sequence[Payload]) -> dict[str, Any]:
    for at, payload in enumerate(payloads):
        if not isinstance(payload, Mapping):
            raise TypeError(f"payloads[{at}]: expected a dict, got {type(payload).__name__}")
    names = dict.fromkeys(name for payload in payloads for name in payload)
    for name in names:
        for at, payload in enumerate(payloads):
            if payload.get(name, 0) is None:
                raise TypeError(f"payloads[{at}][{name!r}]: expected str, int, float or bool, got None")
    return {name: [payload.get(name) for payload in payloads] for name in names}


def _add_column(columns: pb.PayloadColumns, name: str, values: Any) -> None:
    if isinstance(values, np.ndarray):
        refuse_masked(values, f"payloads[{name!r}]")
        if values.ndim == 1 and values.dtype.kind in _KINDS:
            kind = _KINDS[values.dtype.kind]
            columns.columns.add(name=name, **_encoded(kind, values, name))
            return
        if values.ndim != 1 or values.dtype.kind not in "OU":
            raise TypeError(f"payloads[{name!r}]: expected numbers, bools or texts, got {values.dtype} {values.shape}")
        values = values.tolist()
    kinds = [_kind(value, name, at) for at, value in enumerate(values)]
    for kind in dict.fromkeys(one for one in kinds if one is not None):
        present = [one == kind for one in kinds]
        chosen = values if all(present) else [value for value, one in zip(values, present, strict=True) if one]
        presence = b"" if all(present) else np.packbits(present, bitorder="little").tobytes()
        columns.columns.add(name=name, presence=presence, **_encoded(kind, chosen, name))


def _kind(value: Any, name: str, at: int) -> str | None:
    if value is None:
        return None
    kind = _TYPES.get(type(value))
    if kind is not None:
        return kind
    # numpy scalars, and subclasses of Python's types.
    for cls, one in ((bool, _BOOLS), (np.bool_, _BOOLS), (str, _STRINGS), (int, _INTEGERS), (np.integer, _INTEGERS)):
        if isinstance(value, cls):
            return one
    if isinstance(value, (float, np.floating)):
        return _DOUBLES
    raise TypeError(f"payloads[{at}][{name!r}]: expected str, int, float or bool, got {type(value).__name__}")


def _encoded(kind: str, values: Any, name: str) -> dict[str, Any]:
    if kind == _STRINGS:
        return {kind: _strings(values, name)}
    if isinstance(values, np.ndarray) and values.dtype.kind == "u" and len(values) and int(values.max()) >= 1 << 63:
        raise ValueError(f"payloads[{name!r}]: expected signed 64-bit integers, got {values.max()}")
    try:
        return {kind: np.asarray(values, dtype=_DTYPES[kind]).tobytes()}
    except OverflowError:
        wrong = next(value for value in values if not -(1 << 63) <= value < 1 << 63)
        raise ValueError(f"payloads[{name!r}]: expected signed 64-bit integers, got {wrong}") from None


def _strings(values: Sequence[str], name: str) -> pb.StringColumn:
    """Encode texts, with a dictionary if most of them repeat."""
    places = {value: at for at, value in enumerate(dict.fromkeys(values))}
    is_repetitive = 2 * len(places) <= len(values)
    indices = np.fromiter(map(places.__getitem__, values), "<u4", len(values)).tobytes() if is_repetitive else b""
    try:
        texts = [text.encode() for text in (places if is_repetitive else values)]
    except UnicodeEncodeError as wrong:
        raise ValueError(f"payloads[{name!r}]: lone surrogate: {wrong}") from None
    offsets = np.fromiter(accumulate(map(len, texts), initial=0), "<u4", len(texts) + 1)
    return pb.StringColumn(offsets=offsets.tobytes(), data=b"".join(texts), indices=indices)


def read_columns(columns: pb.PayloadColumns, count: int) -> dict[str, list[Value | None]]:
    """Decode payload columns into a value per point, None where a point has none."""
    found: dict[str, list[Value | None]] = {}
    for column in columns.columns:
        values, places = _values(column), _places(column, count)
        if len(values) != (count if places is None else len(places)):
            raise malformed(f"payload column {column.name!r} with {len(values)} values for {count} points")
        if places is None:
            found[column.name] = values
            continue
        row = found.setdefault(column.name, [None] * count)
        for place, value in zip(places, values, strict=True):
            row[place] = value
    return found


def read_payloads(columns: pb.PayloadColumns, count: int) -> list[dict[str, Value]]:
    """Decode payload columns into a dict per point."""
    payloads: list[dict[str, Value]] = [{} for _ in range(count)]
    for column in columns.columns:
        name, values, places = column.name, _values(column), _places(column, count)
        chosen = payloads if places is None else [payloads[place] for place in places]
        if len(values) != len(chosen):
            raise malformed(f"payload column {name!r} with {len(values)} values for {len(chosen)} points")
        for payload, value in zip(chosen, values, strict=True):
            payload[name] = value
    return payloads


def _places(column: pb.PayloadColumn, count: int) -> list[int] | None:
    """Return the points that have a value; None means all."""
    if not column.presence:
        return None
    bits = np.unpackbits(np.frombuffer(column.presence, np.uint8), bitorder="little")
    if len(column.presence) != (count + 7) // 8:
        raise malformed(f"presence of {len(column.presence)} bytes for {count} points")
    places: list[int] = np.flatnonzero(bits[:count]).tolist()
    return places


def _values(column: pb.PayloadColumn) -> list[Any]:
    kind = column.WhichOneof("values")
    if kind == _STRINGS:
        return _read_strings(column.strings)
    if kind is None:
        return []
    values: list[Any] = _view(getattr(column, kind), _DTYPES[kind]).tolist()
    return values


def _read_strings(column: pb.StringColumn) -> list[str]:
    offsets, data = _view(column.offsets, "<u4").tolist(), column.data
    # Decoding once and slicing is faster than decoding each text.
    texts = data.decode("ascii") if data.isascii() else None
    bounds = pairwise(offsets)
    found = [texts[a:b] for a, b in bounds] if texts is not None else [data[a:b].decode() for a, b in bounds]
    if not column.indices:
        return found
    try:
        return [found[at] for at in _view(column.indices, "<u4").tolist()]
    except IndexError:
        raise malformed("index of a text is out of range") from None


def _view(data: bytes, dtype: Any) -> NDArray[Any]:
    kind = np.dtype(dtype)
    if len(data) % kind.itemsize:
        raise malformed(f"{len(data)} bytes are not a multiple of {kind.itemsize}")
    return np.frombuffer(data, kind)


def value_message(value: Any) -> pb.Value:
    """Return the message of a value."""
    kind = _kind(value, "value", 0) if value is not None else None
    if kind == _BOOLS:
        return pb.Value(bool_value=bool(value))
    if kind == _STRINGS:
        check_encodable("value", value)
        return pb.Value(string_value=value)
    if kind == _INTEGERS:
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError(f"expected integers from -2**63 to 2**63 - 1, got {value}")
        return pb.Value(int_value=int(value))
    if kind == _DOUBLES:
        return pb.Value(double_value=float(value))
    raise TypeError("expected str, int, float or bool, got None")
