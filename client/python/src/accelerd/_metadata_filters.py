"""Filters of metadata with and, or and not: searches of the daemon, and what is left to the client."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timezone
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ._records import Record, plain

#: One call of the daemon for each clause, so that a filter cannot make any number of them.
MAX_CLAUSES = 64
# From here on not every integer is a double.
_EXACT = 1 << 53


class Check(NamedTuple):
    """A test that the daemon does not have, and its outcome that is asked for."""

    test: Callable[[Record], bool]
    expected: bool = True


class Clause(NamedTuple):
    """Tests that must all hold: conditions of the daemon as pairs of field and condition, and checks of the client."""

    must: tuple[tuple[str, Any], ...] = ()
    must_not: tuple[tuple[str, Any], ...] = ()
    checks: tuple[Check, ...] = ()

    def merged(self, other: Clause) -> Clause:
        """Return the clause with the tests of both."""
        return Clause(self.must + other.must, self.must_not + other.must_not, self.checks + other.checks)

    def accepts(self, record: Record) -> bool:
        """Whether the checks hold for a record."""
        return all(check.test(record) is check.expected for check in self.checks)


#: A filter in disjunctive normal form: a record matches if it matches a clause.
Filter: TypeAlias = tuple[Clause, ...]
EVERYTHING: Filter = (Clause(),)
NOTHING: Filter = ()


class Field(NamedTuple):
    """A field of records: its name in payloads, None if only the client can test it, and its value, None if missing."""

    label: str
    name: str | None
    get: Callable[[Record], Any]


def all_of(filters: Iterable[Filter]) -> Filter:
    """Return what matches every filter.

    Raises:
        ValueError: The filter has too many alternatives.
    """
    found: Filter = EVERYTHING
    for one in filters:
        found = _bounded(left.merged(right) for left, right in product(found, one))
    return found


def any_of(filters: Iterable[Filter]) -> Filter:
    """Return what matches any of the filters."""
    return _bounded(clause for one in filters for clause in one)


def negated(one: Filter) -> Filter:
    """Return what does not match a filter."""
    return all_of(_negated_clause(clause) for clause in one)


def _negated_clause(clause: Clause) -> Filter:
    return (
        *(Clause(must_not=(condition,)) for condition in clause.must),
        *(Clause(must=(condition,)) for condition in clause.must_not),
        *(Clause(checks=(Check(check.test, not check.expected),)) for check in clause.checks),
    )


def _bounded(clauses: Iterable[Clause]) -> Filter:
    found = tuple(clauses)
    if len(found) > MAX_CLAUSES:
        raise ValueError(f"filter: expected at most {MAX_CLAUSES} alternatives, got {len(found)}")
    return found


def checked(field: Field, test: Callable[[Any], bool]) -> Filter:
    """Return the filter of a test that only the client has."""
    return (Clause(checks=(Check(lambda record: bool(test(field.get(record)))),)),)


def is_missing(field: Field) -> Filter:
    """Return the filter of records without a field, or with None in it."""
    return checked(field, lambda value: value is None)


def equal(field: Field, value: Any) -> Filter:
    """Return the filter of records whose field equals a value; None is that of a field that is missing."""
    value = plain(value)
    if value is None:
        return is_missing(field)
    if not _is_scalar(value):
        raise ValueError(f"{field.label}: expected a str, int, float, bool or None to compare with, got {value!r}")
    if field.name is None:
        return checked(field, lambda own: _same(own, value))
    return (Clause(must=((field.name, value),)),)


def among(field: Field, values: Sequence[Any]) -> Filter:
    """Return the filter of records whose field equals one of some values."""
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, set, frozenset, np.ndarray)):
        raise ValueError(f"{field.label}: expected a list of values, got {values!r}")
    given = [plain(value) for value in values]
    for value in given:
        if value is not None and not _is_scalar(value):
            raise ValueError(f"{field.label}: expected a list of str, int, float or bool, got {value!r} in it")
    some = [value for value in given if value is not None]
    known = checked(field, lambda own: any(_same(own, value) for value in some))
    if field.name is not None:
        known = (Clause(must=((field.name, some),)),)
    return any_of([known, is_missing(field)]) if None in given else known


def compared(field: Field, operator: str, value: Any) -> Filter:
    """Return the filter of records whose field is above or below a number or a date, by one of > >= < <=."""
    value = plain(value)
    if value is None:
        return NOTHING
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if math.isnan(value):
            raise ValueError(f"{field.label} {operator}: expected a number, got NaN")
        if field.name is not None:
            return (Clause(must=((field.name, _range(operator, value)),)),)
        return checked(field, lambda own: _is_number(own) and _ordered(operator, own, value))
    bound = as_time(value)
    if bound is None:
        raise ValueError(f"{field.label} {operator}: expected a number or a date as of ISO 8601, got {value!r}")
    return checked(field, lambda own: (time := as_time(own)) is not None and _ordered(operator, time, bound))


def _range(operator: str, value: int | float) -> slice:
    if operator in (">=", "<"):
        return slice(value, None) if operator == ">=" else slice(None, value)
    # A slice has its lower bound and not its upper one: the next number makes > and <= of these.
    is_large = isinstance(value, int) and abs(value) >= _EXACT
    above = value + 1 if is_large else math.nextafter(value, math.inf)
    return slice(above, None) if operator == ">" else slice(None, above)


def _ordered(operator: str, own: Any, bound: Any) -> bool:
    if operator.startswith(">"):
        return bool(own > bound or (operator == ">=" and own == bound))
    return bool(own < bound or (operator == "<=" and own == bound))


def as_time(value: Any) -> datetime | None:
    """Return the time of a datetime, a date or a text in the format of ISO 8601, by default in UTC; None for others."""
    if isinstance(value, str):
        try:
            # Python before 3.11 does not know Z.
            value = datetime.fromisoformat(f"{value[:-1]}+00:00" if value.endswith("Z") else value)
        except ValueError:
            return None
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(a: Any, b: Any) -> bool:
    """Whether values are equal as the daemon compares them: a bool is no number."""
    return isinstance(a, bool) is isinstance(b, bool) and bool(a == b)
