# Decompositions of matrices of 3 x 3, and the distance of two segments.

# The difference of two products, each with its rounding error.
@__wp.func
def __wp_difference_of_products(a: float, b: float, c: float, d: float):
    product = __wp.float64(c * d)
    difference = float(__wp.float64(a) * __wp.float64(b) - product)
    return difference + float(product - __wp.float64(c) * __wp.float64(d))


# The closest points of two segments, by their positions along them, and their distance (Ericson, Real-Time Collision Detection, 5.1.9).
@__wp.func
def __wp_closest_point_edge_edge(p1: __wp.vec3, q1: __wp.vec3, p2: __wp.vec3, q2: __wp.vec3, epsilon: float):
    first = q1 - p1
    second = q2 - p2
    between = p1 - p2
    a = __wp.dot(first, first)
    e = __wp.dot(second, second)
    f = __wp.dot(second, between)
    s = float(0.0)
    t = float(0.0)
    if a <= epsilon:
        if not e <= epsilon:
            t = __wp.clamp(f / e, 0.0, 1.0)
    elif e <= epsilon:
        s = __wp.clamp(-__wp.dot(first, between) / a, 0.0, 1.0)
    else:
        b = __wp.dot(first, second)
        c = __wp.dot(first, between)
        denominator = __wp_difference_of_products(a, e, b, b)
        if denominator > 0.0:
            s = __wp.clamp(__wp_difference_of_products(b, f, c, e) / denominator, 0.0, 1.0)
        t = (b * s + f) / e
        if t < 0.0:
            t = 0.0
            s = __wp.clamp(-c / a, 0.0, 1.0)
        elif t > 1.0:
            t = 1.0
            s = __wp.clamp((b - c) / a, 0.0, 1.0)
    return __wp.vec3(s, t, __wp.length((p2 + t * second) - (p1 + s * first)))


# The rotation that makes a symmetric matrix diagonal, by sweeps of approximate Givens rotations (McAdams et al., Computing the Singular
# Value Decomposition of 3 x 3 Matrices, 2011). The axes change places after each rotation, so that all rotations are about the third.
@__wp.func
def __wp_diagonalizing_rotation(A: __typing.Any, sweeps: int):
    s11 = A[0, 0]
    s21 = A[1, 0]
    s22 = A[1, 1]
    s31 = A[2, 0]
    s32 = A[2, 1]
    s33 = A[2, 2]
    x = A.dtype(0.0)
    y = A.dtype(0.0)
    z = A.dtype(0.0)
    w = A.dtype(1.0)
    for _ in range(3 * sweeps):
        c = 2.0 * (s11 - s22)
        s = s21
        if 5.82842712474619 * s * s < c * c:
            scale = 1.0 / __wp.sqrt(c * c + s * s)
            c = scale * c
            s = scale * s
        else:
            c = A.dtype(0.9238795325112867)
            s = A.dtype(0.3826834323650898)
        square = c * c + s * s
        a = (c * c - s * s) / square
        b = (2.0 * s * c) / square
        left = a * s11 + b * s21
        right = a * s21 + b * s22
        below = a * s21 - b * s11
        corner = a * s22 - b * s21
        t11 = a * left + b * right
        t21 = a * below + b * corner
        t22 = a * corner - b * below
        t31 = a * s31 + b * s32
        t32 = a * s32 - b * s31
        s11, s21, s22, s31, s32, s33 = t22, t32, s33, t21, t31, t11
        x, y, z, w = y * c - x * s, z * c + w * s, x * c + y * s, w * c - z * s
    return type(A)(
        1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y),
        2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x),
        2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y),
    )


@__wp.func
def __wp_eigenvalues(A: __typing.Any, Q: __typing.Any):
    return __wp.get_diag(__wp.transpose(Q) * A * Q)


@__wp.func
def __wp_eig3(A: __wp.types.matrix(shape=(3, 3), dtype=__wp.Float)):
    Q = __wp_diagonalizing_rotation(A, 4)
    return Q, __wp_eigenvalues(A, Q)


@__wp.func
def __wp_eig3(A: __wp.mat33d):
    Q = __wp_diagonalizing_rotation(A, 8)
    return Q, __wp_eigenvalues(A, Q)


# Cosine and sine of half of the angle of the Givens rotation that makes the second component 0, and its cosine and sine.
@__wp.func
def __wp_givens(first: __typing.Any, second: __typing.Any, epsilon: __typing.Any):
    length = __wp.sqrt(first * first + second * second)
    s = type(first)(0.0)
    if length > epsilon:
        s = second
    c = __wp.abs(first) + __wp.max(length, epsilon)
    if first < 0.0:
        s, c = c, s
    scale = 1.0 / __wp.sqrt(c * c + s * s)
    c *= scale
    s *= scale
    return 1.0 - 2.0 * s * s, 2.0 * c * s


@__wp.func
def __wp_qr(A: __typing.Any, epsilon: __typing.Any):
    zero = A.dtype(0.0)
    one = A.dtype(1.0)
    R = A
    c, s = __wp_givens(R[0, 0], R[1, 0], epsilon)
    first = type(A)(c, -s, zero, s, c, zero, zero, zero, one)
    R[0], R[1] = c * R[0] + s * R[1], c * R[1] - s * R[0]
    c, s = __wp_givens(R[0, 0], R[2, 0], epsilon)
    second = type(A)(c, zero, -s, zero, one, zero, s, zero, c)
    R[0], R[2] = c * R[0] + s * R[2], c * R[2] - s * R[0]
    c, s = __wp_givens(R[1, 1], R[2, 1], epsilon)
    third = type(A)(one, zero, zero, zero, c, -s, zero, s, c)
    R[1], R[2] = c * R[1] + s * R[2], c * R[2] - s * R[1]
    return first * second * third, R


@__wp.func
def __wp_qr3(A: __wp.types.matrix(shape=(3, 3), dtype=__wp.Float)):
    return __wp_qr(A, A.dtype(1e-6))


@__wp.func
def __wp_qr3(A: __wp.mat33d):
    return __wp_qr(A, __wp.float64(1e-12))


# The columns of two matrices in the descending order of the first one's lengths. A change of places keeps the determinant.
@__wp.func
def __wp_columns_by_length(B: __typing.Any, V: __typing.Any):
    for nth in range(3):
        i = 0
        j = 2
        if nth == 0:
            j = 1
        elif nth == 2:
            i = 1
        if __wp.length_sq(__wp_column(B, i)) < __wp.length_sq(__wp_column(B, j)):
            for row in range(3):
                b = -B[row, i]
                B[row, i] = B[row, j]
                B[row, j] = b
                v = -V[row, i]
                V[row, i] = V[row, j]
                V[row, j] = v
    return B, V


@__wp.func
def __wp_column(A: __typing.Any, column: int):
    return __wp.types.vector(A[0, column], A[1, column], A[2, column])


@__wp.func
def __wp_svd(A: __typing.Any, sweeps: int, epsilon: __typing.Any):
    V = __wp_diagonalizing_rotation(__wp.transpose(A) * A, sweeps)
    B, V = __wp_columns_by_length(A * V, V)
    U, S = __wp_qr(B, epsilon)
    return U, __wp.get_diag(S), V


@__wp.func
def __wp_svd3(A: __wp.types.matrix(shape=(3, 3), dtype=__wp.Float)):
    return __wp_svd(A, 4, A.dtype(1e-6))


@__wp.func
def __wp_svd3(A: __wp.mat33d):
    return __wp_svd(A, 8, __wp.float64(1e-12))


# Results in the variables of the caller.
@__wp.func
def __wp_svd3(A: __wp.mat33, U: __wp.ref[__wp.mat33], sigma: __wp.ref[__wp.vec3], V: __wp.ref[__wp.mat33]):
    U, sigma, V = __wp_svd(A, 4, 1e-6)


@__wp.func
def __wp_qr3(A: __wp.mat33, Q: __wp.ref[__wp.mat33], R: __wp.ref[__wp.mat33]):
    Q, R = __wp_qr(A, 1e-6)


@__wp.func
def __wp_eig3(A: __wp.mat33, Q: __wp.ref[__wp.mat33], d: __wp.ref[__wp.vec3]):
    Q, d = __wp_eig3(A)
