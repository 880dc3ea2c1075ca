"""Statistics, money, geometry and physics: the originals of src/floats.rs."""

import math

EARTH_RADIUS_KM = 6371.0088


def mean(xs: list[float]) -> float:
    """The arithmetic mean."""
    total = 0.0
    for i in range(len(xs)):
        total += xs[i]
    return total / len(xs)


def variance(xs: list[float]) -> float:
    """The variance of a sample."""
    center = mean(xs)
    squares = 0.0
    for i in range(len(xs)):
        squares += (xs[i] - center) * (xs[i] - center)
    return squares / (len(xs) - 1)


def median_of_five(a: float, b: float, c: float, d: float, e: float) -> float:
    """The median, by a sorting network."""
    a, b = min(a, b), max(a, b)
    d, e = min(d, e), max(d, e)
    a, d = min(a, d), max(a, d)
    b, e = min(b, e), max(b, e)
    b, c = min(b, c), max(b, c)
    c, d = min(c, d), max(c, d)
    return max(b, c)


def ranked(xs, rank):
    """The number at a place, from 0, of the sorted list; equal ones keep their order."""
    for i in range(len(xs)):
        before = 0
        for j in range(len(xs)):
            if xs[j] < xs[i] or (xs[j] == xs[i] and j < i):
                before += 1
        if before == rank:
            return xs[i]
    raise IndexError("no such rank")


def median(xs: list[float]) -> float:
    """The number in the middle of the sorted list, or the mean of two."""
    half = len(xs) // 2
    if len(xs) % 2 == 1:
        return ranked(xs, half)
    return (ranked(xs, half - 1) + ranked(xs, half)) / 2


def quartile(xs, n):
    """The n-th cut point of four parts, between numbers of the sorted list."""
    position = n * (len(xs) + 1)
    place = max(1, min(position // 4, len(xs) - 1))
    after = position - 4 * place
    return (ranked(xs, place - 1) * (4 - after) + ranked(xs, place) * after) / 4


def quartiles(xs: list[float]) -> tuple[float, float, float]:
    """The cut points of four parts with equal probability."""
    return quartile(xs, 1), quartile(xs, 2), quartile(xs, 3)


def nth_smallest(xs: list[float], n: int) -> float:
    """The n-th number of the sorted list, from 1."""
    return ranked(xs, n - 1)


def mode(xs: list[int]) -> int:
    """The most frequent number; of several, the one that occurs first."""
    best, most = 0, 0
    for i in range(len(xs)):
        count = 0
        for j in range(len(xs)):
            if xs[j] == xs[i]:
                count += 1
        if count > most:
            best, most = xs[i], count
    return best


def integer_variance(xs: list[int]) -> float:
    """The variance of a sample of integers, rounded once."""
    total, squares = 0, 0
    for i in range(len(xs)):
        total += xs[i]
        squares += xs[i] * xs[i]
    return (len(xs) * squares - total * total) / (len(xs) * (len(xs) - 1))


def weighted_mean(xs: list[float], weights: list[float]) -> float:
    """The mean with weights that are not negative."""
    total, weight = 0.0, 0.0
    for i in range(len(xs)):
        if weights[i] < 0.0:
            raise ValueError("negative weight")
        total += xs[i] * weights[i]
        weight += weights[i]
    return total / weight


def norm(xs: list[float]) -> float:
    """The Euclidean norm, scaled against overflow."""
    largest = 0.0
    for i in range(len(xs)):
        largest = max(largest, abs(xs[i]))
    if largest == 0.0 or math.isinf(largest):
        return largest
    squares = 0.0
    for i in range(len(xs)):
        squares += (xs[i] / largest) * (xs[i] / largest)
    return largest * math.sqrt(squares)


def correlation(xs: list[float], ys: list[float]) -> float:
    """Pearson's correlation."""
    x_mean, y_mean = mean(xs), mean(ys)
    xx, yy, xy = 0.0, 0.0, 0.0
    for i in range(len(xs)):
        dx, dy = xs[i] - x_mean, ys[i] - y_mean
        xx += dx * dx
        yy += dy * dy
        xy += dx * dy
    return xy / math.sqrt(xx * yy)


def geometric_mean(xs: list[float]) -> float:
    """The geometric mean of positive numbers."""
    logarithms = 0.0
    for i in range(len(xs)):
        logarithms += math.log(xs[i])
    return math.exp(logarithms / len(xs))


def polynomial(coefficients: list[float], x: float) -> float:
    """The value of a polynomial, by Horner's rule."""
    value = 0.0
    for i in range(len(coefficients)):
        value = value * x + coefficients[-1 - i]
    return value


def bisect_left(xs: list[float], x: float) -> int:
    """The first place in a sorted list where a number can be inserted."""
    low, high = 0, len(xs)
    while low < high:
        middle = (low + high) // 2
        if xs[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


def bisect_right(xs: list[float], x: float) -> int:
    """The last place in a sorted list where a number can be inserted."""
    low, high = 0, len(xs)
    while low < high:
        middle = (low + high) // 2
        if x < xs[middle]:
            high = middle
        else:
            low = middle + 1
    return low


def index_of_max(xs: list[float]) -> int:
    """The first index of the greatest number; numbers that are NaN are passed over."""
    best = -1
    for i in range(len(xs)):
        if math.isnan(xs[i]):
            continue
        if best < 0 or xs[i] > xs[best]:
            best = i
    return best


def longest_run(flags: list[bool]) -> int:
    """The most true values after each other."""
    longest, run = 0, 0
    for i in range(len(flags)):
        run = run + 1 if flags[i] else 0
        longest = max(longest, run)
    return longest


def interpolate(xs: list[float], ys: list[float], x: float) -> float:
    """A piecewise linear function with ascending nodes, constant outside of them."""
    if not x > xs[0]:
        return ys[0]
    for i in range(1, len(xs)):
        if x <= xs[i]:
            share = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
            return ys[i - 1] + share * (ys[i] - ys[i - 1])
    return ys[-1]


def compensated_sum(xs: list[float]) -> float:
    """Neumaier's sum, whose error does not grow with the length."""
    total, lost = 0.0, 0.0
    for i in range(len(xs)):
        x = xs[i]
        new = total + x
        lost += (total - new) + x if abs(total) >= abs(x) else (x - new) + total
        total = new
    return total + lost


def product(xs: list[float]) -> float:
    """The product of all numbers."""
    result = 1.0
    for i in range(len(xs)):
        result *= xs[i]
    return result


def element(xs: list[float], i: int) -> float:
    """An element of a list."""
    return xs[i]


def compound(principal: float, rate: float, years: int) -> float:
    """A principal with compound interest after some years."""
    if years < 0:
        raise ValueError("negative years")
    amount = principal
    for _ in range(years):
        amount += amount * rate
    return amount


def net_present_value(rate: float, flows: list[float]) -> float:
    """The value of yearly payments today."""
    value, discount = 0.0, 1.0
    for i in range(len(flows)):
        value += flows[i] / discount
        discount *= 1.0 + rate
    return value


def payment(principal: float, rate: float, months: int) -> float:
    """The monthly payment of a mortgage at a yearly rate."""
    assert months > 0
    monthly = rate / 12
    if abs(monthly) < 1e-6:
        return principal / months
    return principal * monthly / (1.0 - (1.0 + monthly) ** -months)


def income_tax(income: float) -> float:
    """A progressive tax with three rates."""
    if income <= 10_000.0:
        return 0.0
    if income <= 50_000.0:
        return (income - 10_000.0) * 0.2
    if income < 150_000.0:
        return 8_000.0 + (income - 50_000.0) * 0.4
    return 48_000.0 + (income - 150_000.0) * 0.45


def shipping(price: float, weight: float, is_express: bool, is_member: bool) -> float:
    """The cost of a delivery."""
    if (price >= 100.0 and not is_express) or (is_member and weight < 5.0):
        return 0.0
    cost = 4.5 + 1.25 * max(weight - 1.0, 0.0)
    return cost * (2.0 if is_express else 1.0)


def cents(amount: float) -> float:
    """An amount of money in whole cents."""
    return round(amount * 100) / 100


def internal_rate(flows: list[float]) -> float:
    """The rate at which yearly payments have no value today, by bisection, or NaN."""
    low, high = -0.5, 1.0
    at_low = net_present_value(low, flows)
    if at_low * net_present_value(high, flows) > 0.0:
        return math.nan
    for _ in range(60):
        middle = (low + high) / 2
        value = net_present_value(middle, flows)
        if value == 0.0:
            break
        if (value > 0.0) == (at_low > 0.0):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def triangle_area(a: float, b: float, c: float) -> float:
    """The area of a triangle with these sides."""
    if not (a + b >= c and b + c >= a and c + a >= b):
        raise ValueError("no triangle")
    half = (a + b + c) / 2
    return math.sqrt(max(half * (half - a) * (half - b) * (half - c), 0.0))


def haversine(latitude: float, longitude: float, latitude2: float, longitude2: float) -> float:
    """Kilometres between two places in degrees, along a great circle."""
    north, north2 = math.radians(latitude), math.radians(latitude2)
    sine = math.sin((north2 - north) / 2)
    sine2 = math.sin(math.radians(longitude2 - longitude) / 2)
    share = sine * sine + math.cos(north) * math.cos(north2) * sine2 * sine2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(share, 1.0)))


def quadratic_roots(a: float, b: float, c: float) -> tuple[float, float]:
    """The real roots, without cancellation; NaN where there are none."""
    discriminant = b * b - 4 * a * c
    if a == 0 or discriminant < 0:
        return math.nan, math.nan
    q = -(b + math.copysign(math.sqrt(discriminant), b)) / 2
    return q / a, c / q if q != 0 else 0.0


def segments_cross(ax: float, ay: float, bx: float, by: float, cx: float, cy: float, dx: float, dy: float) -> bool:
    """Whether the segments from a to b and from c to d have one inner point in common."""
    c_is_left = (bx - ax) * (cy - ay) > (by - ay) * (cx - ax)
    d_is_left = (bx - ax) * (dy - ay) > (by - ay) * (dx - ax)
    a_is_left = (dx - cx) * (ay - cy) > (dy - cy) * (ax - cx)
    b_is_left = (dx - cx) * (by - cy) > (dy - cy) * (bx - cx)
    return c_is_left != d_is_left and a_is_left != b_is_left


def polygon_area(xs: list[float], ys: list[float]) -> float:
    """The area of a polygon, by the shoelace formula."""
    total = 0.0
    for i in range(len(xs)):
        total += xs[i - 1] * ys[i] - xs[i] * ys[i - 1]
    return abs(total) / 2


def polar(x: float, y: float) -> tuple[float, float]:
    """Modulus and argument of a complex number."""
    return math.hypot(x, y), math.atan2(y, x)


def bearing(east: float, north: float) -> float:
    """The direction of a vector in degrees from north, clockwise."""
    return math.degrees(math.atan2(east, north))


def power(x: float, y: float) -> float:
    """A power of floats."""
    return x**y


def complex_quotient(a: float, b: float, c: float, d: float) -> tuple[float, float]:
    """The quotient of two complex numbers, by Smith's algorithm."""
    if abs(c) >= abs(d):
        ratio = d / c
        scale = c + d * ratio
        return (a + b * ratio) / scale, (b - a * ratio) / scale
    ratio = c / d
    scale = c * ratio + d
    return (a * ratio + b) / scale, (b * ratio - a) / scale


def complex_product(a: float, b: float, c: float, d: float) -> tuple[float, float]:
    """The product of two complex numbers."""
    return a * c - b * d, a * d + b * c


def clamp(x: float, low: float, high: float) -> float:
    """The number of an interval that is nearest to x."""
    if low > high:
        raise ValueError("empty interval")
    return max(low, min(x, high))


def smoothstep(low: float, high: float, x: float) -> float:
    """A smooth step from 0 to 1."""
    t = clamp((x - low) / (high - low), 0.0, 1.0)
    return t * t * (3 - 2 * t)


def fahrenheit(celsius: float) -> float:
    """A temperature in degrees Fahrenheit."""
    return celsius * 9 / 5 + 32


def bmi_class(kilograms: float, metres: float) -> int:
    """The class of a body mass index: 0 underweight, 1 normal, 2 overweight, 3 obese."""
    index = kilograms / (metres * metres)
    thresholds = int(index >= 18.5) + int(index >= 25.0) + int(index >= 30.0)
    return thresholds


def wind_chill(celsius: float, speed: float) -> float:
    """The temperature that is felt in wind of a speed in km/h."""
    if celsius > 10 or speed < 4.8:
        return celsius
    power = speed**0.16
    return 13.12 + 0.6215 * celsius - 11.37 * power + 0.3965 * celsius * power


def hue_of(red, green, blue):
    """The hue of a colour that is not grey, from 0 to 1."""
    value = max(red, green, blue)
    span = value - min(red, green, blue)
    without_red, without_green, without_blue = (value - red) / span, (value - green) / span, (value - blue) / span
    if red == value:
        sector = without_blue - without_green
    elif green == value:
        sector = 2.0 + without_red - without_blue
    else:
        sector = 4.0 + without_green - without_red
    return sector / 6.0 % 1.0


def hsv(red: float, green: float, blue: float) -> tuple[float, float, float]:
    """Hue, saturation and value of a colour."""
    value, low = max(red, green, blue), min(red, green, blue)
    if value == low:
        return 0.0, 0.0, value
    return hue_of(red, green, blue), (value - low) / value, value


def from_hsv(hue: float, saturation: float, value: float) -> tuple[float, float, float]:
    """Red, green and blue of a colour by hue, saturation and value."""
    if saturation == 0.0:
        return value, value, value
    sector = int(hue * 6.0)
    share = hue * 6.0 - sector
    low = value * (1.0 - saturation)
    falling = value * (1.0 - saturation * share)
    rising = value * (1.0 - saturation * (1.0 - share))
    sector %= 6
    if sector == 0:
        return value, rising, low
    if sector == 1:
        return falling, value, low
    if sector == 2:
        return low, value, rising
    if sector == 3:
        return low, falling, value
    if sector == 4:
        return rising, low, value
    return value, low, falling


def hls(red: float, green: float, blue: float) -> tuple[float, float, float]:
    """Hue, lightness and saturation of a colour."""
    high, low = max(red, green, blue), min(red, green, blue)
    lightness = (high + low) / 2.0
    if high == low:
        return 0.0, lightness, 0.0
    widest = high + low if lightness <= 0.5 else 2.0 - high - low
    return hue_of(red, green, blue), lightness, (high - low) / widest


def channel_of_hue(low, high, hue):
    """A channel between two values, by its distance to the hue."""
    hue %= 1.0
    if hue < 1.0 / 6.0:
        return low + (high - low) * hue * 6.0
    if hue < 0.5:
        return high
    if hue < 2.0 / 3.0:
        return low + (high - low) * (2.0 / 3.0 - hue) * 6.0
    return low


def from_hls(hue: float, lightness: float, saturation: float) -> tuple[float, float, float]:
    """Red, green and blue of a colour by hue, lightness and saturation."""
    if saturation == 0.0:
        return lightness, lightness, lightness
    is_dark = lightness <= 0.5
    high = lightness * (1.0 + saturation) if is_dark else lightness + saturation - lightness * saturation
    low = 2.0 * lightness - high
    red = channel_of_hue(low, high, hue + 1.0 / 3.0)
    green = channel_of_hue(low, high, hue)
    return red, green, channel_of_hue(low, high, hue - 1.0 / 3.0)


def yiq(red: float, green: float, blue: float) -> tuple[float, float, float]:
    """Luma and chrominance of NTSC."""
    luma = 0.30 * red + 0.59 * green + 0.11 * blue
    in_phase = 0.74 * (red - luma) - 0.27 * (blue - luma)
    return luma, in_phase, 0.48 * (red - luma) + 0.41 * (blue - luma)


def srgb_to_linear(channel: float) -> float:
    """A channel of sRGB in linear light."""
    if channel <= 0.04045:
        return channel / 12.92
    return math.pow((channel + 0.055) / 1.055, 2.4)


def sigmoid(x: float) -> float:
    """The logistic function, without overflow."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    power = math.exp(x)
    return power / (1.0 + power)


def normal_cdf(x: float, mean_value: float, deviation: float) -> float:
    """The cumulative distribution of the normal distribution."""
    return (1.0 + math.erf((x - mean_value) / (deviation * math.sqrt(2.0)))) / 2.0


def normal_density(x: float, mean_value: float, deviation: float) -> float:
    """The density of the normal distribution."""
    if deviation < 0.0 or deviation * deviation == 0.0:
        raise ValueError("expected a positive deviation")
    spread = deviation * deviation
    difference = x - mean_value
    return math.exp(difference * difference / (-2.0 * spread)) / math.sqrt(math.tau * spread)


def uniform(low: float, high: float, share: float) -> float:
    """The quantile of the uniform distribution."""
    return low + (high - low) * share


def triangular(low: float, high: float, peak: float, share: float) -> float:
    """The quantile of the triangular distribution."""
    if high - low == 0.0:
        return low
    split = (peak - low) / (high - low)
    if share > split:
        share, split = 1.0 - share, 1.0 - split
        low, high = high, low
    return low + (high - low) * math.sqrt(share * split)


def exponential(rate: float, share: float) -> float:
    """The quantile of the exponential distribution."""
    return -math.log(1.0 - share) / rate


def decibels(power: float, reference: float) -> float:
    """A level relative to a reference."""
    return 10 * math.log10(power / reference)


def decayed(amount: float, time: float, half_life: float) -> float:
    """What is left after a time."""
    return amount * math.exp2(-time / half_life)


def continuous_rates(rate: float) -> tuple[float, float]:
    """The yearly rate of a continuous one, and the reverse."""
    return math.expm1(rate), math.log1p(rate)


def binary_entropy(share: float) -> float:
    """The entropy of two outcomes, in bits."""
    if not 0.0 <= share <= 1.0:
        raise ValueError("expected a share")
    if share == 0.0 or share == 1.0:
        return 0.0
    return -share * math.log2(share) - (1.0 - share) * math.log2(1.0 - share)


def gudermannian(x: float) -> float:
    """The angle that belongs to a hyperbolic one."""
    return math.atan(math.sinh(x))


def hanging_cable(x: float, sag: float) -> float:
    """The height of a cable at a distance from its lowest point."""
    return sag * math.cosh(x / sag)


def inverse_hyperbolics(x: float) -> tuple[float, float, float]:
    """The inverse hyperbolic sine, cosine and tangent."""
    return math.asinh(x), math.acosh(1.0 + x), math.atanh(x / 2.0)


def day_length(latitude: float, declination: float) -> float:
    """Hours between sunrise and sunset."""
    cosine = -math.tan(math.radians(latitude)) * math.tan(math.radians(declination))
    if cosine >= 1.0:
        return 0.0
    if cosine <= -1.0:
        return 24.0
    return math.degrees(math.acos(cosine)) / 7.5


def soft_limit(x: float, limit: float) -> float:
    """A number that approaches a limit."""
    return limit * math.tanh(x / limit)


def wrapped_degrees(angle: float) -> float:
    """An angle from -180 up to 180 degrees."""
    return (angle + 180.0) % 360.0 - 180.0


def floor_divide(a: float, b: float) -> tuple[float, float]:
    """Quotient and remainder of floats, both rounded down."""
    return a // b, a % b


def truncated(x: float, step: float) -> float:
    """A number without what exceeds a multiple of a step."""
    return x - math.fmod(x, step)


def remainder(x: float, y: float) -> float:
    """What is left of x after the nearest multiple of y, the even one of two."""
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if math.isinf(x) or y == 0.0:
        raise ValueError("expected a finite dividend, and a divisor other than 0")
    if math.isinf(y):
        return x
    low = math.fmod(abs(x), abs(y))
    high = abs(y) - low
    if low < high:
        rest = low
    elif low > high:
        rest = -high
    else:
        rest = low - 2.0 * math.fmod(0.5 * (abs(x) - low), abs(y))
    return math.copysign(1.0, x) * rest


def fraction_and_whole(x: float) -> tuple[float, float]:
    """A number's fraction and its integer, both with its sign."""
    if math.isinf(x):
        return math.copysign(0.0, x), x
    fraction = math.fmod(x, 1.0)
    return fraction, math.copysign(x - fraction, x)


def significand_and_exponent(x: float) -> tuple[float, int]:
    """A significand from 0.5 up to 1, and the power of two that it is multiplied by."""
    if x == 0.0 or not math.isfinite(x):
        return x, 0
    exponent = 0
    while abs(x) >= 1.0:
        x /= 2.0
        exponent += 1
    while abs(x) < 0.5:
        x *= 2.0
        exponent -= 1
    return x, exponent


def roundings(x: float) -> tuple[int, int, int, int]:
    """A number rounded to even, down, up and towards 0."""
    return round(x), math.floor(x), math.ceil(x), int(x)


def is_close(a: float, b: float, relative: float, absolute: float) -> bool:
    """Whether two numbers are equal within tolerances."""
    if relative < 0 or absolute < 0:
        raise ValueError("negative tolerance")
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    difference = abs(b - a)
    return difference <= abs(relative * b) or difference <= abs(relative * a) or difference <= absolute


def cube_root(x: float) -> float:
    """The cube root, by Newton's method."""
    if x == 0.0 or not math.isfinite(x):
        return x
    root = x
    for _ in range(1500):
        step = (root - x / (root * root)) / 3.0
        root -= step
        if abs(step) <= 1e-15 * abs(root):
            break
    return root


def escape_iterations(x: float, y: float, limit: int) -> int:
    """Iterations until a point leaves the Mandelbrot set."""
    a, b = 0.0, 0.0
    for i in range(limit):
        if a * a + b * b > 4.0:
            return i
        a, b = a * a - b * b + x, 2.0 * a * b + y
    return limit


def determinant(m: list[float]) -> float:
    """The determinant of a matrix of 3 rows."""
    a = m[0] * (m[4] * m[8] - m[5] * m[7])
    b = m[1] * (m[5] * m[6] - m[3] * m[8])
    c = m[2] * (m[3] * m[7] - m[4] * m[6])
    return a + b + c
