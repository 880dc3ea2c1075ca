"""Cases of a suite's functions, and what CPython computes for them."""

from __future__ import annotations

import importlib
import inspect
import math
import operator
import random
import struct
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent

INTEGERS = [0, 1, -1, 2, -2, 3, 10, -7, 63, 64, 100, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 1 - 2**63]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 0.1, 1 / 3, 18.5, 25.0, 180.0, -180.0, 1e4, 5e4, 1e16]
FLOATS += [5e-324, -5e-324, 2.0**-1022, 1e-154, 1e154, 2.0**53, 2.0**63, -(2.0**63), math.nextafter(math.inf, 0)]


def read_suite(name: str) -> dict[str, dict[str, Any]]:
    """Returns the checks of a suite by name, with the options of all."""
    suite = tomllib.loads((FOLDER / name).read_text())
    checks = suite.pop("check")
    return {check["name"]: {**suite, **check} for check in checks}


def original(check: Mapping[str, Any]) -> Callable[..., Any]:
    """Returns the function in Python that a check refers to."""
    reference = check["reference"]
    module = importlib.import_module(Path(reference["python"]).stem)
    return getattr(module, reference["function"])


class Beyond64BitsError(OverflowError):
    """An integer has more bits than the dialect's."""


class Int64(int):
    """An integer whose operators raise an error for results beyond 64 bits."""


def _checked(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)

    def operation(*operands: Any) -> Any:
        result = plain(*operands)
        if type(result) is not int:
            return result
        if not -(2**63) <= result < 2**63:
            raise Beyond64BitsError(result)
        return Int64(result)

    return operation


for _name in ("add", "sub", "mul", "floordiv", "mod", "lshift", "rshift", "and", "or", "xor", "pow"):
    for _prefix in ("__", "__r"):
        setattr(Int64, f"{_prefix}{_name}__", _checked(f"{_prefix}{_name}__"))
for _name in ("__abs__", "__neg__", "__invert__"):
    setattr(Int64, _name, _checked(_name))


def _plainly(compared: Callable[[Any, Any], bool]) -> Callable[[Int64, Any], bool]:
    """A comparison without the operators, which CPython calls to compare an integer with a float."""
    return lambda one, other: compared(int(one), other)


for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(Int64, f"__{_name}__", _plainly(getattr(operator, _name)))


class Sampler:
    """Draws inputs of a function: special values, small ones, and any of their domain."""

    def __init__(self, check: Mapping[str, Any]) -> None:
        self._random = random.Random(check["name"])
        self._domains = check.get("inputs", {})
        self._params = inspect.signature(original(check)).parameters

    def case(self) -> dict[str, Any]:
        """Returns arguments by name."""
        return {name: self._argument(str(param.annotation), name) for name, param in self._params.items()}

    def _argument(self, annotation: str, name: str) -> Any:
        domain = self._domains.get(name, {})
        draw = {"int": self._integer, "float": self._float, "bool": self._boolean}
        for kind, function in draw.items():
            if annotation == f"list[{kind}]":
                return [function(domain) for _ in range(domain.get("length", 8))]
            if annotation == f"<class '{kind}'>":
                return function(domain)
        raise AssertionError(f"{name}: {annotation}")

    def _boolean(self, _: Mapping[str, Any]) -> bool:
        return self._random.random() < 0.7

    def _integer(self, domain: Mapping[str, Any]) -> int:
        low, high = domain.get("min", -(2**63)), domain.get("max", 2**63 - 1)
        pick = self._random
        drawn = pick.choice([pick.choice(INTEGERS), pick.randint(-20, 20), pick.choice([low, high]), None])
        return drawn if drawn is not None and low <= drawn <= high else pick.randint(low, high)

    def _float(self, domain: Mapping[str, Any]) -> float:
        low, high = domain.get("min", -math.inf), domain.get("max", math.inf)
        pick = self._random
        bits: float = struct.unpack("d", pick.randbytes(8))[0]
        draws = [pick.choice(FLOATS), float(pick.randint(-20, 20)), pick.choice([low, high]), bits, math.nan]
        drawn = pick.choice([*draws, None])
        if drawn is not None and _is_inside(drawn, domain):
            return drawn
        return pick.uniform(max(low, -1e6), min(high, 1e6))


def _is_inside(x: float, domain: Mapping[str, Any]) -> bool:
    if math.isnan(x):
        return "allow_nan" in domain
    if math.isinf(x):
        return "allow_infinity" in domain
    low, high = domain.get("min", -math.inf), domain.get("max", math.inf)
    return bool(low <= x <= high)


def checked(case: Mapping[str, Any]) -> list[Any]:
    """Returns the arguments of a case, with integers of 64 bits."""
    return [Int64(one) if type(one) is int else one for one in case.values()]


def exceeds_64_bits(function: Callable[..., Any], case: Mapping[str, Any]) -> bool:
    """Whether a function computes integers that the dialect does not have."""
    try:
        results = function(*checked(case))
    except Beyond64BitsError:
        return True
    except Exception:
        return False
    return not all(_fits(one) for one in (results if isinstance(results, tuple) else (results,)))


def evaluate(function: Callable[..., Any], arguments: Iterable[Any]) -> tuple[tuple[Any, ...] | None, str]:
    """Returns what CPython computes, or None, and the outcome of the function in the dialect Python."""
    try:
        results = function(*arguments)
    except ZeroDivisionError:
        return None, "division_by_zero"
    except AssertionError:
        return None, "assertion"
    except IndexError:
        return None, "out_of_bounds"
    except (ValueError, OverflowError):
        return None, "invalid_value"
    results = results if isinstance(results, tuple) else (results,)
    if any(isinstance(one, complex) or not _fits(one) for one in results):
        return None, "invalid_value"
    return results, "ok"


def _fits(result: Any) -> bool:
    return not isinstance(result, int) or -(2**63) <= result < 2**63
