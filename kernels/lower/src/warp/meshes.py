# Queries of the nearest and furthest point of a mesh, and of rays. They visit the nodes and faces in the order of Warp.

@__wp.struct
class __wp_MeshQueryPoint:
    result: bool
    sign: float
    face: int
    u: float
    v: float


@__wp.struct
class __wp_MeshQueryRay:
    result: bool
    sign: float
    face: int
    t: float
    u: float
    v: float
    normal: __wp.vec3


# The first two barycentric coordinates of the point of a triangle that is nearest (Ericson, Real-Time Collision Detection, 5.1.5).
@__wp.func
def __wp_nearest_of_face(corners: __wp.mat33, p: __wp.vec3):
    ab = corners[1] - corners[0]
    ac = corners[2] - corners[0]
    ap = p - corners[0]
    d1 = __wp.dot(ab, ap)
    d2 = __wp.dot(ac, ap)
    bp = p - corners[1]
    d3 = __wp.dot(ab, bp)
    d4 = __wp.dot(ac, bp)
    cp = p - corners[2]
    d5 = __wp.dot(ab, cp)
    d6 = __wp.dot(ac, cp)
    vc = d1 * d4 - d3 * d2
    vb = d5 * d2 - d1 * d6
    va = d3 * d6 - d5 * d4
    v = float(0.0)
    w = float(0.0)
    if d1 <= 0.0 and d2 <= 0.0:
        v = 0.0
    elif d3 >= 0.0 and d4 <= d3:
        v = 1.0
    elif vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        v = d1 / (d1 - d3)
    elif d6 >= 0.0 and d5 <= d6:
        w = 1.0
    elif vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        w = d2 / (d2 - d6)
    elif va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        w = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        v = 1.0 - w
    else:
        inverse = 1.0 / (va + vb + vc)
        v = vb * inverse
        w = vc * inverse
    return __wp.vec2(1.0 - v - w, v)


# The first two barycentric coordinates of the corner of a triangle that is furthest.
@__wp.func
def __wp_furthest_of_face(corners: __wp.mat33, p: __wp.vec3):
    a = __wp.length_sq(p - corners[0])
    b = __wp.length_sq(p - corners[1])
    c = __wp.length_sq(p - corners[2])
    if a > b and a > c:
        return __wp.vec2(1.0, 0.0)
    if b > c:
        return __wp.vec2(0.0, 1.0)
    return __wp.vec2(0.0, 0.0)


@__wp.func
def __wp_is_sliver(corners: __wp.mat33):
    ab = corners[1] - corners[0]
    ac = corners[2] - corners[0]
    edges = __wp.length_sq(ab) + __wp.length_sq(ac) + __wp.length_sq(corners[2] - corners[1])
    return __wp.length(__wp.cross(ab, ac)) / edges < 1.0e-6


@__wp.func
def __wp_nearest_of_box(record: int, node: int, point: __wp.vec3):
    lower = __wp_lower_corner(record, node)
    upper = __wp_upper_corner(record, node)
    offset = __wp.min(upper, __wp.max(lower, point)) - point
    return __wp.length_sq(offset)


@__wp.func
def __wp_furthest_of_box(record: int, node: int, point: __wp.vec3):
    lower = __wp.abs(point - __wp_lower_corner(record, node))
    upper = __wp.abs(point - __wp_upper_corner(record, node))
    return __wp.length_sq(__wp.max(lower, upper))


# The nearest point with a sign of 1, or of -1 the furthest one, if its distance is within a limit. The result has no sign yet.
@__wp.func
def __wp_extreme_point(
    record: int, point: __wp.vec3, limit: float, of_box: __wp.Function, of_face: __wp.Function, sign: float
):
    ints = __wp.geometry_ints()
    links = ints[record + 2]
    best = limit * limit
    w = float(0.0)
    query = __wp_MeshQueryPoint()
    walk = __wp_walk(record, -1)
    while walk.depth >= 0:
        node = walk.node
        child = int(-1)
        is_only = bool(False)
        if sign * of_box(record, node, point) <= sign * best:
            left = ints[links + 5 * node]
            right = ints[links + 5 * node + 1]
            if ints[links + 5 * node + 2] == 1:
                for nth in range(left, right):
                    face = ints[ints[record + 4] + nth]
                    corners = __wp_face(record, face)
                    if not __wp_is_sliver(corners):
                        uv = of_face(corners, point)
                        w_of_face = 1.0 - uv[0] - uv[1]
                        offset = uv[0] * corners[0] + uv[1] * corners[1] + w_of_face * corners[2] - point
                        square = __wp.length_sq(offset)
                        if sign * square < sign * best:
                            best = square
                            query.result = True
                            query.face = face
                            query.v = uv[1]
                            w = w_of_face
            else:
                of_left = sign * of_box(record, left, point)
                of_right = sign * of_box(record, right, point)
                child = right
                if of_left < of_right:
                    child = left
                is_only = __wp.max(of_left, of_right) >= sign * best
                if __wp.min(of_left, of_right) >= sign * best:
                    child = -1
        __wp_proceed(walk, child, is_only)
    if query.result:
        query.u = 1.0 - query.v - w
    return query


@__wp.func
def __wp_nearest_point(record: int, point: __wp.vec3, max_dist: float):
    return __wp_extreme_point(record, point, max_dist, __wp_nearest_of_box, __wp_nearest_of_face, 1.0)


@__wp.func
def __wp_mesh_query_point_no_sign(id: __wp.uint64, point: __wp.vec3, max_dist: float):
    return __wp_nearest_point(__wp_record(id, 1, 1), point, max_dist)


@__wp.func
def __wp_mesh_query_furthest_point_no_sign(id: __wp.uint64, point: __wp.vec3, min_dist: float):
    record = __wp_record(id, 1, 1)
    return __wp_extreme_point(record, point, min_dist, __wp_furthest_of_box, __wp_furthest_of_face, -1.0)


# A sign of -1 if most of the rays along the axes leave the mesh through the back of a face.
@__wp.func
def __wp_sign_by_rays(record: int, point: __wp.vec3):
    votes = int(0)
    for axis in range(3):
        dir = __wp.vec3()
        dir[axis] = 1.0
        if __wp_first_hit(record, point, dir, __wp.inf, -1, False).sign < 0.0:
            votes += 1
    return __wp.where(votes >= 2, -1.0, 1.0)


@__wp.func
def __wp_mesh_query_point(id: __wp.uint64, point: __wp.vec3, max_dist: float):
    record = __wp_record(id, 1, 1)
    query = __wp_nearest_point(record, point, max_dist)
    if query.result:
        query.sign = __wp_sign_by_rays(record, point)
    return query


# The number of faces that a ray meets.
@__wp.func
def __wp_hits(record: int, start: __wp.vec3, dir: __wp.vec3, root: int):
    ints = __wp.geometry_ints()
    links = ints[record + 2]
    count = int(0)
    cursor = __wp_cursor(record, root)
    while cursor.node != cursor.end:
        node = cursor.node
        cursor.node = ints[links + 5 * node + 4]
        if __wp_entry(start, dir, __wp_lower_corner(record, node), __wp_upper_corner(record, node)) < __wp.inf:
            if ints[links + 5 * node + 2] == 1:
                for nth in range(ints[links + 5 * node], ints[links + 5 * node + 1]):
                    if __wp_hit(__wp_face(record, ints[ints[record + 4] + nth]), start, dir)[0] >= 0.0:
                        count += 1
            else:
                cursor.node = ints[links + 5 * node + 1]
    return count


@__wp.func
def __wp_mesh_query_ray_count_intersections(id: __wp.uint64, start: __wp.vec3, dir: __wp.vec3, root: int = -1):
    return __wp_hits(__wp_record(id, 1, 1), start, dir, root)


@__wp.func
def __wp_mesh_query_point_sign_parity(
    id: __wp.uint64, point: __wp.vec3, max_dist: float, n_sample: int = 1, perturbation_scale: float = 0.1
):
    record = __wp_record(id, 1, 1)
    query = __wp_nearest_point(record, point, max_dist)
    if query.result:
        state = __wp.rand_init(42)
        votes = int(0)
        for _ in range(n_sample):
            dir = __wp.vec3()
            while __wp.length_sq(dir) < 1.0e-8:
                x = __wp.randf(state, -perturbation_scale, perturbation_scale)
                y = __wp.randf(state, -perturbation_scale, perturbation_scale)
                z = __wp.randf(state, -perturbation_scale, perturbation_scale)
                dir = __wp.vec3(1.0, 1.0, 1.0) + __wp.vec3(x, y, z)
            if __wp_hits(record, point, dir, -1) % 2 == 1:
                votes += 1
        query.sign = __wp.where(2 * votes >= n_sample, -1.0, 1.0)
    return query


# The solid angle of a face, seen from a point.
@__wp.func
def __wp_solid_angle(corners: __wp.mat33, point: __wp.vec3):
    a = corners[0] - point
    b = corners[1] - point
    c = corners[2] - point
    if __wp.length(a) == 0.0 or __wp.length(b) == 0.0 or __wp.length(c) == 0.0:
        return 0.0
    a = a / __wp.length(a)
    b = b / __wp.length(b)
    c = c / __wp.length(c)
    volume = __wp.dot(a, __wp.cross(b - a, c - a))
    if volume == 0.0:
        return 0.0
    return 2.0 * __wp.atan2(volume, 1.0 + __wp.dot(a, b) + __wp.dot(a, c) + __wp.dot(b, c))


# Warp approximates the sum of distant faces.
@__wp.func
def __wp_mesh_query_point_sign_winding_number(
    id: __wp.uint64, point: __wp.vec3, max_dist: float, accuracy: float = 2.0, threshold: float = 0.5
):
    record = __wp_record(id, 1, 1)
    ints = __wp.geometry_ints()
    query = __wp_nearest_point(record, point, max_dist)
    if query.result:
        if ints[record + 15] == 1:
            angle = float(0.0)
            for face in range(ints[record + 13] // 3):
                angle += __wp_solid_angle(__wp_face(record, face), point)
            query.sign = __wp.where(angle * 0.07957747154594767 > threshold, -1.0, 1.0)
        else:
            query.sign = __wp_sign_by_rays(record, point)
    return query


# Twice the angle of a face at the point of it that counts: at a corner, an edge, or inside.
@__wp.func
def __wp_angle_weight(corners: __wp.mat33, point: __wp.vec3, tolerance: float):
    near = tolerance * tolerance
    for nth in range(3):
        corner = corners[nth]
        a = corners[(nth + 1) % 3] - corner
        b = corners[(nth + 2) % 3] - corner
        if __wp.length_sq(point - corner) < near:
            return __wp.acos(__wp.dot(__wp.normalize(a), __wp.normalize(b)))
    for nth in range(3):
        corner = corners[nth]
        edge = corners[(nth + 1) % 3] - corner
        offset = point - corner
        along = __wp.dot(edge, offset)
        square = __wp.length_sq(edge)
        if __wp.length_sq(offset) * square - along * along < near * square:
            return 3.14159265359
    return 6.28318530718


@__wp.func
def __wp_mesh_query_point_sign_normal(id: __wp.uint64, point: __wp.vec3, max_dist: float, epsilon: float = 1.0e-3):
    record = __wp_record(id, 1, 1)
    ints = __wp.geometry_ints()
    links = ints[record + 2]
    tolerance = __wp.cast(ints[record + 14], float) * epsilon
    best = float(max_dist)
    normal = __wp.vec3()
    w = float(0.0)
    query = __wp_MeshQueryPoint()
    walk = __wp_walk(record, -1)
    while walk.depth >= 0:
        node = walk.node
        child = int(-1)
        is_only = bool(False)
        reach = best + tolerance
        if __wp_nearest_of_box(record, node, point) <= reach * reach:
            left = ints[links + 5 * node]
            right = ints[links + 5 * node + 1]
            if ints[links + 5 * node + 2] == 1:
                for nth in range(left, right):
                    face = ints[ints[record + 4] + nth]
                    corners = __wp_face(record, face)
                    if not __wp_is_sliver(corners):
                        uv = __wp_nearest_of_face(corners, point)
                        w_of_face = 1.0 - uv[0] - uv[1]
                        nearest = uv[0] * corners[0] + uv[1] * corners[1] + w_of_face * corners[2]
                        distance = __wp.length(nearest - point)
                        if distance < best + tolerance:
                            face_normal = __wp.cross(corners[1] - corners[0], corners[2] - corners[0])
                            weight = __wp_angle_weight(corners, nearest, tolerance)
                            if distance <= best - tolerance:
                                normal = __wp.vec3()
                            normal += weight * __wp.normalize(face_normal)
                            if distance < best:
                                best = distance
                                query.result = True
                                query.face = face
                                query.v = uv[1]
                                w = w_of_face
            else:
                of_left = __wp_nearest_of_box(record, left, point)
                of_right = __wp_nearest_of_box(record, right, point)
                child = right
                if of_left < of_right:
                    child = left
                is_only = __wp.max(of_left, of_right) >= reach * reach
                if __wp.min(of_left, of_right) >= reach * reach:
                    child = -1
        __wp_proceed(walk, child, is_only)
    if query.result:
        query.u = 1.0 - query.v - w
        corners = __wp_face(record, query.face)
        nearest = corners[0] * query.u + corners[1] * query.v + corners[2] * w
        query.sign = __wp.where(__wp.dot(normal, point - nearest) > 0.0, 1.0, -1.0)
    return query


# The difference a b - c d. The error of the second product is added (Kahan); products of float32 are exact in float64.
@__wp.func
def __wp_product_difference(a: float, b: float, c: float, d: float):
    second = __wp.float64(c * d)
    difference = float(__wp.float64(a) * __wp.float64(b) - second)
    return difference + float(second - __wp.float64(c) * __wp.float64(d))


@__wp.func
def __wp_exact_product_difference(a: float, b: float, c: float, d: float):
    return float(__wp.float64(a) * __wp.float64(b) - __wp.float64(c) * __wp.float64(d))


# Where a ray meets a face: t, the first two barycentric coordinates and the determinant, whose sign is that of the side. t is -1 if it
# does not (Woop, Benthin and Wald, Journal of Computer Graphics Techniques 2, 2013).
@__wp.func
def __wp_hit(corners: __wp.mat33, start: __wp.vec3, dir: __wp.vec3):
    z = int(0)
    if __wp.abs(dir[1]) > __wp.abs(dir[0]):
        z = 1
    if __wp.abs(dir[2]) > __wp.abs(dir[z]):
        z = 2
    x = (z + 1) % 3
    y = (z + 2) % 3
    if dir[z] < 0.0:
        x = (z + 2) % 3
        y = (z + 1) % 3
    depth = 1.0 / dir[z]
    along_x = dir[x] / dir[z]
    along_y = dir[y] / dir[z]
    a = corners[0] - start
    b = corners[1] - start
    c = corners[2] - start
    ax = a[x] - along_x * a[z]
    ay = a[y] - along_y * a[z]
    bx = b[x] - along_x * b[z]
    by = b[y] - along_y * b[z]
    cx = c[x] - along_x * c[z]
    cy = c[y] - along_y * c[z]
    u = __wp_product_difference(cx, by, cy, bx)
    v = __wp_product_difference(ax, cy, ay, cx)
    w = __wp_product_difference(bx, ay, by, ax)
    if u == 0.0 or v == 0.0 or w == 0.0:
        u = __wp_exact_product_difference(cx, by, cy, bx)
        v = __wp_exact_product_difference(ax, cy, ay, cx)
        w = __wp_exact_product_difference(bx, ay, by, ax)
    determinant = u + v + w
    is_between = not ((u < 0.0 or v < 0.0 or w < 0.0) and (u > 0.0 or v > 0.0 or w > 0.0))
    result = __wp.vec4(-1.0, 0.0, 0.0, 0.0)
    if is_between and determinant != 0.0:
        t = u * (depth * a[z]) + v * (depth * b[z]) + w * (depth * c[z])
        if t * __wp.sign(determinant) >= 0.0:
            inverse = 1.0 / determinant
            result = __wp.vec4(t * inverse, u * inverse, v * inverse, determinant)
    return result


# The first face that a ray meets, or any.
@__wp.func
def __wp_first_hit(record: int, start: __wp.vec3, dir: __wp.vec3, max_t: float, root: int, takes_any: bool):
    ints = __wp.geometry_ints()
    links = ints[record + 2]
    query = __wp_MeshQueryRay()
    best = float(max_t)
    walk = __wp_walk(record, root)
    while walk.depth >= 0:
        node = walk.node
        child = int(-1)
        is_only = bool(False)
        entry = __wp_entry(start, dir, __wp_lower_corner(record, node), __wp_upper_corner(record, node))
        if walk.depth == 0 or entry < best:
            left = ints[links + 5 * node]
            right = ints[links + 5 * node + 1]
            if ints[links + 5 * node + 2] == 1:
                for nth in range(left, right):
                    face = ints[ints[record + 4] + nth]
                    hit = __wp_hit(__wp_face(record, face), start, dir)
                    if hit[0] >= 0.0 and hit[0] < best:
                        best = hit[0]
                        query.result = True
                        query.face = face
                        query.t = hit[0]
                        query.u = hit[1]
                        query.v = hit[2]
                        query.sign = hit[3]
            else:
                of_left = __wp_entry(start, dir, __wp_lower_corner(record, left), __wp_upper_corner(record, left))
                of_right = __wp_entry(start, dir, __wp_lower_corner(record, right), __wp_upper_corner(record, right))
                child = right
                if of_left < of_right:
                    child = left
                is_only = __wp.max(of_left, of_right) >= best
                if __wp.min(of_left, of_right) >= best:
                    child = -1
        __wp_proceed(walk, child, is_only)
        if takes_any and query.result:
            break
    return query


@__wp.func
def __wp_mesh_query_ray(id: __wp.uint64, start: __wp.vec3, dir: __wp.vec3, max_t: float, root: int = -1):
    record = __wp_record(id, 1, 1)
    query = __wp_first_hit(record, start, dir, max_t, root, False)
    if query.result:
        corners = __wp_face(record, query.face)
        query.normal = __wp.normalize(__wp.cross(corners[1] - corners[0], corners[2] - corners[0]))
    return query


@__wp.func
def __wp_mesh_query_ray_anyhit(id: __wp.uint64, start: __wp.vec3, dir: __wp.vec3, max_t: float, root: int = -1):
    return __wp_first_hit(__wp_record(id, 1, 1), start, dir, max_t, root, True).result
