

# The first index of a part of an ascending array whose element is not below a value.
@__wp.func
def __wp_lower_bound(elements: __wp.array(dtype=__typing.Any), begin: int, end: int, value: __typing.Any):
    lower = begin
    upper = end - 1
    while lower < upper:
        middle = lower + (upper - lower) / 2
        if elements[middle] < value:
            lower = middle + 1
        else:
            upper = middle
    return lower


@__wp.func
def __wp_lower_bound(elements: __wp.array(dtype=__typing.Any), value: __typing.Any):
    return __wp_lower_bound(elements, 0, elements.shape[0], value)


@__wp.func
def __wp_sample_cdf(state: __wp.ref[__wp.uint32], cdf: __wp.array(dtype=float)):
    uniform = __wp.randf(state)
    return __wp_lower_bound(cdf, 0, cdf.shape[0], uniform)


@__wp.func
def __wp_sample_triangle(state: __wp.ref[__wp.uint32]):
    root = __wp.sqrt(__wp.randf(state))
    v = __wp.randf(state) * root
    return __wp.vec2(1.0 - root, v)


@__wp.func
def __wp_sample_unit_ring(state: __wp.ref[__wp.uint32]):
    angle = __wp.randf(state, 0.0, 6.283185307179586)
    return __wp.vec2(__wp.cos(angle), __wp.sin(angle))


@__wp.func
def __wp_sample_unit_disk(state: __wp.ref[__wp.uint32]):
    radius = __wp.sqrt(__wp.randf(state))
    angle = __wp.randf(state, 0.0, 6.283185307179586)
    return __wp.vec2(radius * __wp.cos(angle), radius * __wp.sin(angle))


@__wp.func
def __wp_on_sphere(state: __wp.ref[__wp.uint32], share: float):
    inclination = __wp.acos(1.0 - share * __wp.randf(state))
    angle = __wp.randf(state, 0.0, 6.283185307179586)
    radius = __wp.sin(inclination)
    return __wp.vec3(__wp.cos(angle) * radius, __wp.sin(angle) * radius, __wp.cos(inclination))


@__wp.func
def __wp_within_sphere(state: __wp.ref[__wp.uint32], share: float):
    inclination = __wp.acos(1.0 - share * __wp.randf(state))
    angle = __wp.randf(state, 0.0, 6.283185307179586)
    radius = __wp.pow(__wp.randf(state), 1.0 / 3.0)
    x = radius * __wp.cos(angle) * __wp.sin(inclination)
    y = radius * __wp.sin(angle) * __wp.sin(inclination)
    return __wp.vec3(x, y, radius * __wp.cos(inclination))


@__wp.func
def __wp_sample_unit_sphere_surface(state: __wp.ref[__wp.uint32]):
    return __wp_on_sphere(state, 2.0)


@__wp.func
def __wp_sample_unit_sphere(state: __wp.ref[__wp.uint32]):
    return __wp_within_sphere(state, 2.0)


@__wp.func
def __wp_sample_unit_hemisphere_surface(state: __wp.ref[__wp.uint32]):
    return __wp_on_sphere(state, 1.0)


@__wp.func
def __wp_sample_unit_hemisphere(state: __wp.ref[__wp.uint32]):
    return __wp_within_sphere(state, 1.0)


@__wp.func
def __wp_sample_unit_square(state: __wp.ref[__wp.uint32]):
    x = __wp.randf(state) - 0.5
    y = __wp.randf(state) - 0.5
    return __wp.vec2(x, y)


@__wp.func
def __wp_sample_unit_cube(state: __wp.ref[__wp.uint32]):
    x = __wp.randf(state) - 0.5
    y = __wp.randf(state) - 0.5
    z = __wp.randf(state) - 0.5
    return __wp.vec3(x, y, z)
