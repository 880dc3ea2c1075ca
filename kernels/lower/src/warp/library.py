# Functions of Warp that are compositions of others. Calls of `wp.NAME` are calls of `__wp_NAME`.

@__wp.func
def __wp_norm_l1(v: __typing.Any):
    total = float(0.0)
    for axis in range(len(v)):
        total += __wp.abs(v[axis])
    return total


@__wp.func
def __wp_norm_l2(v: __typing.Any):
    return __wp.length(v)


@__wp.func
def __wp_norm_huber(v: __typing.Any, delta: float = 1.0):
    square = __wp.dot(v, v)
    if square <= delta * delta:
        return 0.5 * square
    return delta * (__wp.sqrt(square) - 0.5 * delta)


@__wp.func
def __wp_norm_pseudo_huber(v: __typing.Any, delta: float = 1.0):
    return delta * __wp.sqrt(1.0 + __wp.dot(v, v) / (delta * delta))


@__wp.func
def __wp_smooth_normalize(v: __typing.Any, delta: float = 1.0):
    return v / __wp_norm_pseudo_huber(v, delta)


@__wp.func
def __wp_velocity_at_point(twist: __wp.spatial_vector, offset: __wp.vec3):
    return twist[3:6] + __wp.cross(twist[0:3], offset)


@__wp.func
def __wp_quat_twist(axis: __wp.vec3, q: __wp.quat):
    along = __wp.dot(q[0:3], axis) * axis
    return __wp.normalize(__wp.quat(along[0], along[1], along[2], q[3]))


@__wp.func
def __wp_quat_twist_angle(axis: __wp.vec3, q: __wp.quat):
    return 2.0 * __wp.atan2(__wp.abs(__wp.dot(axis, q[0:3])), q[3])


@__wp.func
def __wp_quat_twist_angle_signed(axis: __wp.vec3, q: __wp.quat):
    return 2.0 * __wp.atan2(__wp.dot(axis, q[0:3]), q[3])


@__wp.func
def __wp_quat_to_rpy(q: __wp.quat):
    x, y, z, w = q
    roll = __wp.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = __wp.asin(__wp.clamp(2.0 * (w * y - z * x), -1.0, 1.0))
    yaw = __wp.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return __wp.vec3(roll, pitch, yaw)


@__wp.func
def __wp_rotation_about(axis: int, angle: float):
    s = __wp.sin(0.5 * angle)
    c = __wp.cos(0.5 * angle)
    if axis == 0:
        return __wp.quat(s, 0.0, 0.0, c)
    if axis == 1:
        return __wp.quat(0.0, s, 0.0, c)
    return __wp.quat(0.0, 0.0, s, c)


@__wp.func
def __wp_quat_from_euler(angles: __wp.vec3, i: int, j: int, k: int):
    first = __wp_rotation_about(i, angles[i])
    second = __wp_rotation_about(j, angles[j])
    third = __wp_rotation_about(k, angles[k])
    return third * (second * first)


@__wp.func
def __wp_transform_twist(t: __wp.transform, twist: __wp.spatial_vector):
    angular = __wp.quat_rotate(t.q, twist[0:3])
    linear = __wp.quat_rotate(t.q, twist[3:6]) + __wp.cross(t.p, angular)
    return __wp.spatial_vector(angular, linear)


@__wp.func
def __wp_transform_wrench(t: __wp.transform, wrench: __wp.spatial_vector):
    force = __wp.quat_rotate(t.q, wrench[3:6])
    torque = __wp.quat_rotate(t.q, wrench[0:3]) + __wp.cross(t.p, force)
    return __wp.spatial_vector(torque, force)


# The Box-Muller transform. The summand keeps the argument of the logarithm above 0.
@__wp.func
def __wp_randn(state: __wp.ref[__wp.uint32]):
    radius = __wp.sqrt(-2.0 * __wp.log(__wp.randf(state) + 5.96e-8))
    return radius * __wp.cos(6.283185307179586 * __wp.randf(state))


# Multiplication of uniform numbers (Knuth, The Art of Computer Programming, vol. 2).
@__wp.func
def __wp_poisson_by_products(state: __wp.ref[__wp.uint32], rate: float):
    limit = __wp.exp(-rate)
    count = __wp.uint32(0)
    product = __wp.randf(state)
    while product > limit:
        count += __wp.uint32(1)
        product *= __wp.randf(state)
    return count


# The logarithm of the gamma function by Stirling's series at an argument above 7.
@__wp.func
def __wp_log_gamma(x: float):
    if x == 1.0 or x == 2.0:
        return 0.0
    steps = int(0)
    if x <= 7.0:
        steps = int(7.0 - x)
    at = x + float(steps)
    inverse = 1.0 / (at * at)
    series = float(-1.392432216905901)
    series = series * inverse + 1.796443723688307e-1
    series = series * inverse + -2.955065359477124e-2
    series = series * inverse + 6.410256410256410e-3
    series = series * inverse + -1.917526917526918e-3
    series = series * inverse + 8.417508417508418e-4
    series = series * inverse + -5.952380952380952e-4
    series = series * inverse + 7.936507936507937e-4
    series = series * inverse + -2.777777777777778e-3
    series = series * inverse + 8.333333333333333e-2
    result = series / at + 0.9189385332046727 + (at - 0.5) * __wp.log(at) - at
    for _ in range(steps):
        result -= __wp.log(at - 1.0)
        at -= 1.0
    return result


# Transformed rejection (Hoermann, Insurance: Mathematics and Economics 12, 1993).
@__wp.func
def __wp_poisson_by_rejection(state: __wp.ref[__wp.uint32], rate: float):
    b = 0.931 + 2.53 * __wp.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2.0)
    log_rate = __wp.log(rate)
    while True:
        u = __wp.randf(state) - 0.5
        v = __wp.randf(state)
        distance = 0.5 - __wp.abs(u)
        k = __wp.floor((2.0 * a / distance + b) * u + rate + 0.43)
        if distance >= 0.07 and v <= squeeze:
            return __wp.uint32(k)
        if k >= 0.0 and not (distance < 0.013 and v > distance):
            height = __wp.log(v) + __wp.log(inverse_alpha) - __wp.log(a / (distance * distance) + b)
            if height <= -rate + k * log_rate - __wp_log_gamma(k + 1.0):
                return __wp.uint32(k)


@__wp.func
def __wp_poisson(state: __wp.ref[__wp.uint32], rate: float):
    if rate >= 10.0:
        return __wp_poisson_by_rejection(state, rate)
    if rate == 0.0:
        return __wp.uint32(0)
    return __wp_poisson_by_products(state, rate)


# The shared method of Bernardes and Viollet (PLOS ONE 17, 2022) for all sequences of axes. The angle of each axis stands at its place.
@__wp.func
def __wp_quat_to_euler(q: __wp.quat, i: int, j: int, k: int):
    last = k
    if i == k:
        last = 3 - i - j
    sign = 0.5 * float((i - j) * (j - last) * (last - i))
    a = q[3]
    b = q[i]
    c = q[j]
    d = q[last] * sign
    if i != k:
        a -= q[j]
        b += q[last] * sign
        c += q[3]
        d -= q[i]
    second = __wp.acos(2.0 * (a * a + b * b) / (a * a + b * b + c * c + d * d) - 1.0)
    plus = __wp.atan2(b, a)
    minus = __wp.atan2(d, c)
    first = 0.0
    third = 0.0
    if __wp.abs(second) < 1e-6:
        third = 2.0 * plus - first
    elif __wp.abs(second - 3.141592653589793) < 1e-6:
        third = 2.0 * minus + first
    else:
        first = plus - minus
        third = plus + minus
    if i != k:
        second -= 1.5707963267948966
        third *= sign
    angles = __wp.vec3()
    angles[i] = first
    angles[j] = second
    angles[last] = third
    return angles


@__wp.func
def __wp_quat_between_vectors(a: __wp.vec3, b: __wp.vec3):
    source = __wp.normalize(a)
    target = __wp.normalize(b)
    axis = __wp.cross(source, target)
    return __wp.normalize(__wp.quat(axis[0], axis[1], axis[2], 1.0 + __wp.dot(source, target)))


# The matrix of 4 x 4 of a matrix of 3 x 3 and a translation.
@__wp.func
def __wp_affine(R: __typing.Any, p: __typing.Any):
    zero = p.dtype(0.0)
    return __wp.matrix(
        R[0, 0], R[0, 1], R[0, 2], p[0], R[1, 0], R[1, 1], R[1, 2], p[1], R[2, 0], R[2, 1], R[2, 2], p[2],
        zero, zero, zero, p.dtype(1.0), shape=(4, 4),
    )


@__wp.func
def __wp_transform_to_matrix(t: __wp.types.transformation(dtype=__wp.Float)):
    return __wp_affine(__wp.quat_to_matrix(t.q), t.p)


@__wp.func
def __wp_transform_compose(position: __typing.Any, rotation: __typing.Any, scale: __typing.Any):
    R = __wp.quat_to_matrix(rotation)
    return __wp_affine(__wp.matrix_from_cols(scale[0] * R[:, 0], scale[1] * R[:, 1], scale[2] * R[:, 2]), position)
