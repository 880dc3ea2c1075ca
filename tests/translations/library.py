"""Functions of Python's standard library, by the name of the function of the suite that is translated from each."""

from __future__ import annotations

import binascii
import bisect
import calendar
import cmath
import colorsys
import heapq
import ipaddress
import math
import random
import statistics
import struct
import time
import zlib
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from typing import Any, NamedTuple


class Library(NamedTuple):
    """A function of the library."""

    #: Its name; several in the order of the results.
    name: str
    function: Callable[..., Any]
    #: Whether arguments are in its domain, if the domain of the function in the suite is larger.
    covers: Callable[..., bool] = lambda *arguments: True


class Draw(random.Random):
    """A generator whose next number is given."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self._share = share

    def random(self) -> float:
        return self._share


def is_a_year(year: int, *_: int) -> bool:
    """Whether a year is in the domain of datetime."""
    return 1 <= year <= 9999


def octets(data: list[int]) -> bytes:
    """The low bytes of integers."""
    return bytes(one & 0xFF for one in data)


def parts(z: complex) -> tuple[float, float]:
    """The parts of a complex number."""
    return z.real, z.imag


def fields(duration: timedelta) -> tuple[int, int, int]:
    """The fields of a duration."""
    return duration.days, duration.seconds, duration.microseconds


def triple(day: date) -> tuple[int, int, int]:
    """The fields of a date."""
    return day.year, day.month, day.day


def network(address: int, prefix: int) -> tuple[int, int, int]:
    """The network of an address, as numbers."""
    found = ipaddress.IPv4Network((address, prefix), strict=False)
    return int(found.network_address), int(found.broadcast_address), found.num_addresses


#: They take the arguments of the function in the suite.
LIBRARY = {
    "gcd": Library("math.gcd", math.gcd),
    "lcm": Library("math.lcm", math.lcm),
    "power_mod": Library("pow", pow, lambda base, exponent, modulus: exponent >= 0),
    "bit_length": Library("int.bit_length", int.bit_length),
    "integer_sqrt": Library("math.isqrt", math.isqrt),
    "bit_count": Library("int.bit_count", int.bit_count),
    "binomial": Library("math.comb", math.comb, lambda n, k: n >= 0 and k >= 0),
    "permutations": Library("math.perm", math.perm),
    "factorial": Library("math.factorial", math.factorial),
    "modular_inverse": Library("pow", lambda a, modulus: pow(a, -1, modulus), lambda a, modulus: modulus >= 0),
    "divide_with_remainder": Library("divmod", divmod),
    "range_sum": Library("sum", lambda start, stop, step: sum(range(start, stop, step))),
    "fraction_sum": Library(
        "fractions.Fraction.__add__", lambda a, b, c, d: (Fraction(a, b) + Fraction(c, d)).as_integer_ratio()
    ),
    "limit_denominator": Library(
        "fractions.Fraction.limit_denominator",
        lambda n, d, limit: Fraction(n, d).limit_denominator(limit).as_integer_ratio(),
    ),
    "adler32": Library("zlib.adler32", lambda data: zlib.adler32(octets(data))),
    "crc32": Library("zlib.crc32", lambda data: zlib.crc32(octets(data))),
    "crc16": Library("binascii.crc_hqx", lambda data, crc: binascii.crc_hqx(octets(data), crc)),
    "integer_hash": Library("hash", hash),
    "from_bytes": Library("int.from_bytes", lambda data: int.from_bytes(bytes(data), "big", signed=True)),
    "utf8": Library("str.encode", lambda code: int.from_bytes(chr(code).encode(), "big")),
    "from_half_bits": Library("struct.unpack", lambda bits: struct.unpack("<e", struct.pack("<H", bits))[0]),
    "ipv4_network": Library("ipaddress.IPv4Network", network),
    "slice_indices": Library(
        "slice.indices", lambda start, stop, step, length: slice(start, stop, step).indices(length)
    ),
    "is_leap_year": Library("calendar.isleap", calendar.isleap),
    "leap_days": Library("calendar.leapdays", calendar.leapdays),
    "days_in_month": Library("calendar.monthrange", lambda year, month: calendar.monthrange(year, month)[1]),
    "ordinal": Library("datetime.date.toordinal", lambda *day: date(*day).toordinal(), is_a_year),
    "day_of_year": Library("datetime.date.timetuple", lambda *day: date(*day).timetuple().tm_yday, is_a_year),
    "date_of_ordinal": Library("datetime.date.fromordinal", lambda days: triple(date.fromordinal(days))),
    "weekday": Library("calendar.weekday", calendar.weekday),
    "week_of_year": Library("datetime.date.isocalendar", lambda *day: date(*day).isocalendar()[:2], is_a_year),
    "date_of_week": Library("datetime.date.fromisocalendar", lambda *week: triple(date.fromisocalendar(*week))),
    "unix_time": Library("calendar.timegm", lambda *fields: calendar.timegm(fields), is_a_year),
    "utc_time": Library("time.gmtime", lambda seconds: time.gmtime(seconds)[:6]),
    "normalized_duration": Library("datetime.timedelta", lambda *duration: fields(timedelta(*duration))),
    "total_seconds": Library("datetime.timedelta.total_seconds", lambda *fields: timedelta(*fields).total_seconds()),
    "median": Library("statistics.median", statistics.median),
    "quartiles": Library("statistics.quantiles", lambda xs: tuple(statistics.quantiles(xs))),
    "nth_smallest": Library("heapq.nsmallest", lambda xs, n: heapq.nsmallest(n, xs)[-1]),
    "mode": Library("statistics.mode", statistics.mode),
    "integer_variance": Library("statistics.variance", statistics.variance),
    "geometric_mean": Library("statistics.geometric_mean", statistics.geometric_mean),
    "bisect_left": Library("bisect.bisect_left", bisect.bisect_left),
    "bisect_right": Library("bisect.bisect_right", bisect.bisect_right),
    "product": Library("math.prod", math.prod),
    "polar": Library("cmath.polar", lambda x, y: cmath.polar(complex(x, y))),
    "power": Library("math.pow", math.pow),
    "complex_quotient": Library("complex.__truediv__", lambda a, b, c, d: parts(complex(a, b) / complex(c, d))),
    "complex_product": Library("complex.__mul__", lambda a, b, c, d: parts(complex(a, b) * complex(c, d))),
    "hsv": Library("colorsys.rgb_to_hsv", colorsys.rgb_to_hsv),
    "from_hsv": Library("colorsys.hsv_to_rgb", colorsys.hsv_to_rgb),
    "hls": Library("colorsys.rgb_to_hls", colorsys.rgb_to_hls),
    "from_hls": Library("colorsys.hls_to_rgb", colorsys.hls_to_rgb),
    "yiq": Library("colorsys.rgb_to_yiq", colorsys.rgb_to_yiq),
    "normal_cdf": Library(
        "statistics.NormalDist.cdf", lambda x, mean, deviation: statistics.NormalDist(mean, deviation).cdf(x)
    ),
    "normal_density": Library(
        "statistics.NormalDist.pdf", lambda x, mean, deviation: statistics.NormalDist(mean, deviation).pdf(x)
    ),
    "uniform": Library("random.Random.uniform", lambda low, high, share: Draw(share).uniform(low, high)),
    "triangular": Library(
        "random.Random.triangular", lambda low, high, peak, share: Draw(share).triangular(low, high, peak)
    ),
    "exponential": Library("random.Random.expovariate", lambda rate, share: Draw(share).expovariate(rate)),
    "continuous_rates": Library("math.expm1, math.log1p", lambda rate: (math.expm1(rate), math.log1p(rate))),
    "floor_divide": Library("float.__divmod__", divmod),
    "remainder": Library("math.remainder", math.remainder),
    "fraction_and_whole": Library("math.modf", math.modf),
    "significand_and_exponent": Library("math.frexp", math.frexp),
    "roundings": Library(
        "round, math.floor, math.ceil, math.trunc", lambda x: (round(x), math.floor(x), math.ceil(x), math.trunc(x))
    ),
    "is_close": Library("math.isclose", lambda a, b, rel, abs: math.isclose(a, b, rel_tol=rel, abs_tol=abs)),
}
