

# Gradient noise (Perlin, ACM SIGGRAPH 19, 1985). The gradient of a cell follows from a hash of its place.
@__wp.func
def __wp_fade(t: float):
    return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)


@__wp.func
def __wp_fade_slope(t: float):
    return 30.0 * t * t * (t * (t - 2.0) + 1.0)


@__wp.func
def __wp_cell_prime(axis: int):
    if axis == 0:
        return __wp.uint32(73856093)
    if axis == 1:
        return __wp.uint32(19349663)
    if axis == 2:
        return __wp.uint32(53471161)
    return __wp.uint32(10000019)


@__wp.func
def __wp_cell_gradient(state: __wp.uint32, cell: __typing.Any, zero: __typing.Any):
    last = len(cell) - 1
    hashed = __wp.uint32(cell[last]) * __wp_cell_prime(last) + state
    for axis in range(last):
        hashed ^= __wp.uint32(cell[axis]) * __wp_cell_prime(axis)
    gradient = zero
    for axis in range(len(cell)):
        gradient[axis] = __wp.randf(hashed) - 0.5
    return __wp.normalize(gradient)


# The corners of a cell are visited in the order of binary numbers. `values` and `gradients` have, of each axis, the side below it
# that is complete. The rows of `axes` are the unit vectors.
@__wp.func
def __wp_noise_with_gradient(
    state: __wp.uint32, lower: __typing.Any, upper: __typing.Any, at: __typing.Any, axes: __typing.Any
):
    values = at
    gradients = axes
    value = float(0.0)
    gradient = at
    for corner in range(1 << len(at)):
        cell = lower
        offset = at
        for axis in range(len(at)):
            if (corner >> axis) & 1 == 1:
                cell[axis] = upper[axis]
                offset[axis] = at[axis] - 1.0
        gradient = __wp_cell_gradient(state, cell, at)
        value = __wp.dot(offset, gradient)
        for axis in range(len(at)):
            if (corner >> axis) & 1 == 0:
                values[axis] = value
                gradients[axis] = gradient
                break
            below = gradients[axis]
            rise = value - values[axis]
            fade = __wp_fade(at[axis])
            gradient = (gradient - below) * fade + rise * __wp_fade_slope(at[axis]) * axes[axis] + below
            value = rise * fade + values[axis]
    return value, gradient


@__wp.func
def __wp_noise_at(state: __wp.uint32, lower: __typing.Any, upper: __typing.Any, at: __typing.Any):
    values = at
    value = float(0.0)
    for corner in range(1 << len(at)):
        cell = lower
        offset = at
        for axis in range(len(at)):
            if (corner >> axis) & 1 == 1:
                cell[axis] = upper[axis]
                offset[axis] = at[axis] - 1.0
        value = __wp.dot(offset, __wp_cell_gradient(state, cell, at))
        for axis in range(len(at)):
            if (corner >> axis) & 1 == 0:
                values[axis] = value
                break
            value = (value - values[axis]) * __wp_fade(at[axis]) + values[axis]
    return value


@__wp.func
def __wp_noise_on_line(state: __wp.uint32, lower: int, upper: int, at: float):
    first = __wp.uint32(lower) * __wp_cell_prime(0) + state
    second = __wp.uint32(upper) * __wp_cell_prime(0) + state
    before = at * __wp.randf(first, -1.0, 1.0)
    after = (at - 1.0) * __wp.randf(second, -1.0, 1.0)
    return (after - before) * __wp_fade(at) + before


@__wp.func
def __wp_floored(p: __typing.Any):
    floor = p
    for axis in range(len(p)):
        floor[axis] = __wp.floor(p[axis])
    return floor


@__wp.func
def __wp_cell(p: __wp.vec2):
    return __wp.vec2i(int(__wp.floor(p[0])), int(__wp.floor(p[1])))


@__wp.func
def __wp_cell(p: __wp.vec3):
    return __wp.vec3i(int(__wp.floor(p[0])), int(__wp.floor(p[1])), int(__wp.floor(p[2])))


@__wp.func
def __wp_cell(p: __wp.vec4):
    return __wp.vec4i(int(__wp.floor(p[0])), int(__wp.floor(p[1])), int(__wp.floor(p[2])), int(__wp.floor(p[3])))


@__wp.func
def __wp_noise(state: __wp.uint32, x: float):
    lower = int(__wp.floor(x))
    return __wp_noise_on_line(state, lower, lower + 1, x - __wp.floor(x))


@__wp.func
def __wp_noise(state: __wp.uint32, xy: __wp.vec2):
    lower = __wp_cell(xy)
    return __wp_noise_at(state, lower, lower + __wp.vec2i(1), xy - __wp_floored(xy))


@__wp.func
def __wp_noise(state: __wp.uint32, xyz: __wp.vec3):
    lower = __wp_cell(xyz)
    return __wp_noise_at(state, lower, lower + __wp.vec3i(1), xyz - __wp_floored(xyz))


@__wp.func
def __wp_noise(state: __wp.uint32, xyzt: __wp.vec4):
    lower = __wp_cell(xyzt)
    return __wp_noise_at(state, lower, lower + __wp.vec4i(1), xyzt - __wp_floored(xyzt))


@__wp.func
def __wp_periodic(cell: __typing.Any, period: __typing.Any):
    place = cell
    for axis in range(len(cell)):
        place[axis] = cell[axis] % period[axis]
    return place


@__wp.func
def __wp_pnoise(state: __wp.uint32, x: float, px: int):
    lower = int(__wp.floor(x)) % px
    return __wp_noise_on_line(state, lower, (lower + 1) % px, x - __wp.floor(x))


@__wp.func
def __wp_pnoise(state: __wp.uint32, xy: __wp.vec2, px: int, py: int):
    period = __wp.vec2i(px, py)
    lower = __wp_periodic(__wp_cell(xy), period)
    upper = __wp_periodic(lower + __wp.vec2i(1), period)
    return __wp_noise_at(state, lower, upper, xy - __wp_floored(xy))


@__wp.func
def __wp_pnoise(state: __wp.uint32, xyz: __wp.vec3, px: int, py: int, pz: int):
    period = __wp.vec3i(px, py, pz)
    lower = __wp_periodic(__wp_cell(xyz), period)
    upper = __wp_periodic(lower + __wp.vec3i(1), period)
    return __wp_noise_at(state, lower, upper, xyz - __wp_floored(xyz))


@__wp.func
def __wp_pnoise(state: __wp.uint32, xyzt: __wp.vec4, px: int, py: int, pz: int, pt: int):
    period = __wp.vec4i(px, py, pz, pt)
    lower = __wp_periodic(__wp_cell(xyzt), period)
    upper = __wp_periodic(lower + __wp.vec4i(1), period)
    return __wp_noise_at(state, lower, upper, xyzt - __wp_floored(xyzt))


# The curl of potentials that are noise has no divergence (Bridson et al., ACM Transactions on Graphics 26, 2007).
@__wp.func
def __wp_curlnoise(
    state: __wp.uint32, xy: __wp.vec2, octaves: __wp.uint32 = 1, lacunarity: float = 2.0, gain: float = 0.5
):
    total = __wp.vec2(0.0)
    frequency = float(1.0)
    amplitude = float(1.0)
    axes = __wp.identity(n=2, dtype=float)
    for _ in range(int(octaves)):
        p = frequency * xy
        lower = __wp_cell(p)
        _value, gradient = __wp_noise_with_gradient(state, lower, lower + __wp.vec2i(1), p - __wp_floored(p), axes)
        total += amplitude * gradient
        amplitude *= gain
        frequency *= lacunarity
    return __wp.vec2(-total[1], total[0])


@__wp.func
def __wp_curl_of_potentials(
    state: __wp.uint32,
    p: __typing.Any,
    one: __typing.Any,
    axes: __typing.Any,
    octaves: __wp.uint32,
    lacunarity: float,
    gain: float,
):
    hashed = state
    # The rows are the gradients of three potentials.
    first = p * 0.0
    second = first
    third = first
    frequency = float(1.0)
    amplitude = float(1.0)
    for _ in range(int(octaves)):
        at = frequency * p
        lower = __wp_cell(at)
        for potential in range(3):
            if potential == 1:
                hashed = __wp.rand_init(int(hashed), 10019689)
            if potential == 2:
                hashed = __wp.rand_init(int(hashed), 13112221)
            _value, gradient = __wp_noise_with_gradient(hashed, lower, lower + one, at - __wp_floored(at), axes)
            if potential == 0:
                first += amplitude * gradient
            elif potential == 1:
                second += amplitude * gradient
            else:
                third += amplitude * gradient
        amplitude *= gain
        frequency *= lacunarity
    return __wp.vec3(third[1] - second[2], first[2] - third[0], second[0] - first[1])


@__wp.func
def __wp_curlnoise(
    state: __wp.uint32, xyz: __wp.vec3, octaves: __wp.uint32 = 1, lacunarity: float = 2.0, gain: float = 0.5
):
    axes = __wp.identity(n=3, dtype=float)
    return __wp_curl_of_potentials(state, xyz, __wp.vec3i(1), axes, octaves, lacunarity, gain)


@__wp.func
def __wp_curlnoise(
    state: __wp.uint32, xyzt: __wp.vec4, octaves: __wp.uint32 = 1, lacunarity: float = 2.0, gain: float = 0.5
):
    axes = __wp.identity(n=4, dtype=float)
    return __wp_curl_of_potentials(state, xyzt, __wp.vec4i(1), axes, octaves, lacunarity, gain)
