"""Number theory, bits, checksums and encodings: the originals of src/integers.rs."""

import math

MASK_32 = 0xFFFFFFFF


def gcd(a: int, b: int) -> int:
    """Greatest common divisor, which is not negative."""
    while b != 0:
        a, b = b, a % b
    return abs(a)


def lcm(a: int, b: int) -> int:
    """Least common multiple, which is not negative."""
    if a == 0 or b == 0:
        return 0
    return abs(a // gcd(a, b) * b)


def is_prime(n: int) -> bool:
    """Whether a number is prime, by trial division."""
    if n < 2:
        return False
    if n % 2 == 0:
        return n == 2
    divisor = 3
    while divisor * divisor <= n:
        if n % divisor == 0:
            return False
        divisor += 2
    return True


def power_mod(base: int, exponent: int, modulus: int) -> int:
    """A power modulo a number, by repeated squaring."""
    if exponent < 0:
        raise ValueError("negative exponent")
    result = 1 % modulus
    base %= modulus
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


def bit_length(n: int) -> int:
    """Bits of the magnitude of a number."""
    n = abs(n)
    bits = 0
    while n > 0:
        n >>= 1
        bits += 1
    return bits


def integer_sqrt(n: int) -> int:
    """The square root, rounded down, by Newton's method."""
    if n < 0:
        raise ValueError("negative number")
    if n == 0:
        return 0
    root = 1 << ((bit_length(n) + 1) // 2)
    while True:
        better = (root + n // root) // 2
        if better >= root:
            return root
        root = better


def bit_count(n: int) -> int:
    """Ones in the binary digits of the magnitude."""
    n = abs(n)
    count = 0
    while n:
        n &= n - 1
        count += 1
    return count


def collatz_steps(n: int) -> int:
    """Steps of the Collatz sequence until 1."""
    assert n > 0, "expected a positive number"
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def fibonacci(n: int) -> int:
    """The Fibonacci number of an index."""
    if n < 0:
        raise ValueError("negative index")
    a, b = 0, 1
    for _ in range(n - 1):
        a, b = b, a + b
    return b if n > 0 else a


def binomial(n: int, k: int) -> int:
    """Ways to choose k of n."""
    if k < 0 or k > n:
        return 0
    ways = 1
    for i in range(1, min(k, n - k) + 1):
        ways = ways * (n - i + 1) // i
    return ways


def permutations(n: int, k: int) -> int:
    """Ways to arrange k of n."""
    if n < 0 or k < 0:
        raise ValueError("negative number")
    if k > n:
        return 0
    ways = 1
    for i in range(k):
        ways *= n - i
    return ways


def factorial(n: int) -> int:
    """The product of all numbers up to n."""
    if n < 0:
        raise ValueError("negative number")
    product = 1
    for i in range(2, n + 1):
        product *= i
    return product


def digital_root(n: int) -> int:
    """The sum of decimal digits, repeated until one digit is left."""
    n = abs(n)
    while n >= 10:
        total = 0
        while n > 0:
            total += n % 10
            n //= 10
        n = total
    return n


def reversed_digits(n: int) -> int:
    """The number with its decimal digits in reverse order."""
    rest, result = abs(n), 0
    while rest > 0:
        result = result * 10 + rest % 10
        rest //= 10
    return -result if n < 0 else result


def totient(n: int) -> int:
    """Numbers up to n without a common divisor."""
    if n <= 0:
        raise ValueError("expected a positive number")
    result = n
    factor = 2
    while factor * factor <= n:
        if n % factor == 0:
            while n % factor == 0:
                n //= factor
            result -= result // factor
        factor += 1
    return result - result // n if n > 1 else result


def modular_inverse(a: int, modulus: int) -> int:
    """The inverse modulo a number, by the extended Euclidean algorithm."""
    if modulus <= 0:
        raise ValueError("expected a positive modulus")
    r, next_r = a % modulus, modulus
    s, next_s = 1, 0
    while next_r != 0:
        quotient = r // next_r
        r, next_r = next_r, r - quotient * next_r
        s, next_s = next_s, s - quotient * next_s
    if r != 1:
        raise ValueError("not invertible")
    return s % modulus


def divide_with_remainder(a: int, b: int) -> tuple[int, int]:
    """Quotient and remainder."""
    return a // b, a % b


def multiply_add(a: int, b: int, c: int) -> int:
    """A product and a sum."""
    return a * b + c


def align(n: int, step: int) -> int:
    """The multiple of a step that is nearest, the even multiple of two."""
    quotient, rest = n // step, n % step
    if 2 * abs(rest) > abs(step) or (2 * abs(rest) == abs(step) and quotient % 2 == 1):
        quotient += 1
    return quotient * step


def rotate_left(x: int, count: int) -> int:
    """A rotation of 32 bits."""
    x &= MASK_32
    count %= 32
    return ((x << count) | (x >> (32 - count))) & MASK_32


def xorshift(state: int, steps: int) -> int:
    """A state of Marsaglia's generator of 32 bits."""
    state &= MASK_32
    for _ in range(steps):
        state ^= (state << 13) & MASK_32
        state ^= state >> 17
        state ^= (state << 5) & MASK_32
    return state


def shifted(n: int, count: int) -> int:
    """A shift to the left, or to the right by a negative count."""
    if count < 0:
        return n >> -count
    return n << count


def range_sum(start: int, stop: int, step: int) -> int:
    """The sum of a range."""
    total = 0
    for i in range(start, stop, step):
        total += i
    return total


def lowest_zero(n: int) -> int:
    """The lowest binary digit that is 0, as a power of two."""
    return ~n & (n + 1)


def sum_of_cubes(n: int) -> int:
    """The sum of the first cubes."""
    return n**2 * (n + 1) ** 2 // 4


def ratio(a: int, b: int) -> float:
    """The quotient of integers as a float."""
    return a / b


def compare(n: int, x: float) -> int:
    """-1, 0 or 1 as an integer is less than, equal to or greater than a float, and 2 for NaN."""
    if n < x:
        return -1
    if n == x:
        return 0
    return 1 if n > x else 2


def fraction_sum(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    """The reduced sum of two fractions, with a positive denominator."""
    if b == 0 or d == 0:
        raise ZeroDivisionError("denominator is 0")
    numerator, denominator = a * d + c * b, b * d
    divisor = gcd(numerator, denominator)
    if denominator < 0:
        divisor = -divisor
    return numerator // divisor, denominator // divisor


def limit_denominator(numerator: int, denominator: int, limit: int) -> tuple[int, int]:
    """The nearest fraction whose denominator is within a limit, by the convergents of the continued fraction."""
    if limit < 1:
        raise ValueError("expected a positive limit")
    n, d = fraction_sum(numerator, denominator, 0, 1)
    if d <= limit:
        return n, d
    dividend, divisor = n, d
    last_p, last_q, p, q = 0, 1, 1, 0
    while last_q + dividend // divisor * q <= limit:
        digit = dividend // divisor
        last_p, last_q, p, q = p, q, last_p + digit * p, last_q + digit * q
        dividend, divisor = divisor, dividend % divisor
    # The last denominator of those between two convergents that is within the limit.
    digit = (limit - last_q) // q
    if 2 * divisor * (last_q + digit * q) <= d:
        return p, q
    return last_p + digit * p, last_q + digit * q


def adler32(data: list[int]) -> int:
    """The Adler-32 checksum of bytes."""
    low, high = 1, 0
    for i in range(len(data)):
        low = (low + (data[i] & 0xFF)) % 65521
        high = (high + low) % 65521
    return (high << 16) | low


def fnv1a(data: list[int]) -> int:
    """The FNV-1a hash of 32 bits of bytes."""
    value = 0x811C9DC5
    for i in range(len(data)):
        value ^= data[i] & 0xFF
        value = value * 0x01000193 & MASK_32
    return value


def crc8(data: list[int]) -> int:
    """The cyclic redundancy check of 8 bits with the polynomial 7."""
    crc = 0
    for i in range(len(data)):
        crc ^= data[i] & 0xFF
        for _ in range(8):
            crc = (crc << 1) ^ 7 if crc & 0x80 else crc << 1
            crc &= 0xFF
    return crc


def crc32(data: list[int]) -> int:
    """The cyclic redundancy check of Ethernet and zip files."""
    crc = MASK_32
    for i in range(len(data)):
        crc ^= data[i] & 0xFF
        for _ in range(8):
            crc = crc >> 1 ^ 0xEDB88320 if crc & 1 else crc >> 1
    return crc ^ MASK_32


def crc16(data: list[int], crc: int) -> int:
    """The cyclic redundancy check of 16 bits with the polynomial 0x1021, continued from that of earlier bytes."""
    crc &= 0xFFFF
    for i in range(len(data)):
        crc ^= (data[i] & 0xFF) << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1
    return crc


def integer_hash(n: int) -> int:
    """The hash of an integer: the remainder by a Mersenne prime, with the sign of the integer, and never -1."""
    value = abs(n) % (2**61 - 1)
    if n < 0:
        value = -value
    return -2 if value == -1 else value


def from_bytes(data: list[int]) -> int:
    """The integer with these bytes in two's complement, the highest one first."""
    value = 0
    for i in range(len(data)):
        byte = data[i]
        if not 0 <= byte <= 255:
            raise ValueError("expected bytes")
        value = value * 256 + (byte - 256 if i == 0 and byte >= 128 else byte)
    return value


def utf8(code: int) -> int:
    """The bytes of a character in UTF-8, as an integer whose highest byte is the first one."""
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("no character")
    if code < 0x80:
        return code
    last = 0x80 | code & 0x3F
    if code < 0x800:
        return (0xC0 | code >> 6) << 8 | last
    last |= (0x80 | code >> 6 & 0x3F) << 8
    if code < 0x10000:
        return (0xE0 | code >> 12) << 16 | last
    return (0xF0 | code >> 18) << 24 | (0x80 | code >> 12 & 0x3F) << 16 | last


def from_half_bits(bits: int) -> float:
    """The floating-point number of 16 bits with these bits."""
    sign = -1.0 if bits & 0x8000 else 1.0
    exponent, fraction = bits >> 10 & 0x1F, bits & 0x3FF
    if exponent == 0x1F:
        return sign * math.inf if fraction == 0 else math.nan
    if exponent == 0:
        return sign * fraction / 2**24
    return sign * (2**10 + fraction) * (1 << exponent) / 2**25


def ipv4_network(address: int, prefix: int) -> tuple[int, int, int]:
    """The first and the last address of the network of an address, and the number of addresses."""
    if not 0 <= address <= MASK_32 or not 0 <= prefix <= 32:
        raise ValueError("expected an address of 32 bits and a prefix")
    count = 1 << (32 - prefix)
    first = address - address % count
    return first, first + count - 1, count


def slice_indices(start: int, stop: int, step: int, length: int) -> tuple[int, int, int]:
    """The range of indices that a slice selects from a list of a length."""
    if step == 0 or length < 0:
        raise ValueError("expected a step other than 0, and a length")
    low = 0 if step > 0 else -1
    high = length + low
    start = max(start + length, low) if start < 0 else min(start, high)
    stop = max(stop + length, low) if stop < 0 else min(stop, high)
    return start, stop, step


def luhn_is_valid(digits: list[int]) -> bool:
    """Whether digits end with their check digit by Luhn's formula."""
    total = 0
    for i in range(len(digits) - 1, -1, -1):
        digit = digits[i]
        if not 0 <= digit <= 9:
            raise ValueError("expected digits")
        if (len(digits) - i) % 2 == 0:
            digit *= 2
            if digit > 9:
                digit -= 9
        total += digit
    return total % 10 == 0
