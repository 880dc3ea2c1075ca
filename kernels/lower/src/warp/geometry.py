# Queries of bounding volume hierarchies (BVHs) and meshes. Calls of `wp.NAME` are calls of `__wp_NAME`.
#
# A kernel that queries has two more arrays, `geometry_ints` and `geometry_vectors`. The integers begin with the number of handles, and
# for each, in ascending order, its low and high word and the offset of its record. A record begins with its kind: 1 mesh, 2 BVH,
# 3 hash grid, 4 volume. Offsets in records are of integers or of vectors. After the kind, a record of a mesh or BVH has
#
#   1 the root, or -1    2 links: per node its left child or first item, its right child or the end of its items, 1 for a leaf, its
#   parent or -1, and the node that follows its subtree or -1    3 boxes (vectors): per node the lower and upper corner
#   4 items in the order of the leaves    5 boxes of the items (vectors)    6 groups of the items, or -1    7 the number of leaves,
#   which are the first nodes of a BVH with groups
#
# and that of a mesh also
#
#   8 points (vectors)    9 their number    10 velocities (vectors)    11 their number    12 indices    13 their number
#   14 the bits of the average length of an edge    15 1 if winding numbers determine signs    16, 17 the words of the handle of its BVH

@__wp.func
def __wp_handle(at: int):
    ints = __wp.geometry_ints()
    high = __wp.uint64(__wp.uint32(ints[at + 1]))
    return (high << __wp.uint64(32)) | __wp.uint64(__wp.uint32(ints[at]))


# The offset of the record of a handle. It is a fault if there is none of the kind.
@__wp.func
def __wp_record(id: __wp.uint64, first_kind: int, last_kind: int):
    ints = __wp.geometry_ints()
    low = int(0)
    high = ints[0]
    while low < high:
        middle = (low + high) // 2
        if __wp_handle(1 + 3 * middle) < id:
            low = middle + 1
        else:
            high = middle
    record = int(-1)
    if low < ints[0]:
        if __wp_handle(1 + 3 * low) == id:
            record = ints[3 + 3 * low]
    assert record >= 0
    assert ints[record] >= first_kind and ints[record] <= last_kind
    return record


# A walk through the nodes without a stack. The bits of `trail` are 1 for the current node and those above it if no child of their parent
# follows them.
@__wp.struct
class __wp_Walk:
    record: int
    node: int
    depth: int
    trail: __wp.uint64


@__wp.func
def __wp_walk(record: int, root: int):
    ints = __wp.geometry_ints()
    walk = __wp_Walk()
    walk.record = record
    walk.node = root
    if root == -1:
        walk.node = ints[record + 1]
    if walk.node < 0:
        walk.depth = -1
    return walk


# Proceeds to a child, after which the other one follows unless it is the only one, or with -1 to the node that follows the subtree. The
# depth is -1 after the last node.
@__wp.func
def __wp_proceed(walk: __wp.ref[__wp_Walk], child: int, is_only: bool):
    if child >= 0:
        walk.node = child
        walk.depth += 1
        walk.trail = (walk.trail << __wp.uint64(1)) | __wp.where(is_only, __wp.uint64(1), __wp.uint64(0))
    else:
        ints = __wp.geometry_ints()
        links = ints[walk.record + 2]
        while walk.depth > 0 and (walk.trail & __wp.uint64(1)) == __wp.uint64(1):
            walk.node = ints[links + 5 * walk.node + 3]
            walk.depth -= 1
            walk.trail = walk.trail >> __wp.uint64(1)
        if walk.depth == 0:
            walk.depth = -1
        else:
            parent = links + 5 * ints[links + 5 * walk.node + 3]
            walk.node = ints[parent] + ints[parent + 1] - walk.node
            walk.trail = walk.trail | __wp.uint64(1)


@__wp.func
def __wp_lower_corner(record: int, node: int):
    return __wp.geometry_vectors()[__wp.geometry_ints()[record + 3] + 2 * node]


@__wp.func
def __wp_upper_corner(record: int, node: int):
    return __wp.geometry_vectors()[__wp.geometry_ints()[record + 3] + 2 * node + 1]


# Where a ray enters a box; infinity if it misses it.
@__wp.func
def __wp_entry(start: __wp.vec3, dir: __wp.vec3, lower: __wp.vec3, upper: __wp.vec3):
    first = float(-3.4028234663852886e38)
    last = float(3.4028234663852886e38)
    for axis in range(3):
        if dir[axis] == 0.0:
            if start[axis] < lower[axis] or start[axis] > upper[axis]:
                last = -__wp.inf
        else:
            reciprocal = 1.0 / dir[axis]
            a = (lower[axis] - start[axis]) * reciprocal
            b = (upper[axis] - start[axis]) * reciprocal
            first = __wp.max(__wp.min(a, b), first)
            last = __wp.min(__wp.max(a, b), last)
    if last >= 0.0 and last >= first:
        return first
    return __wp.inf


# The items of the nodes that pass a test.
@__wp.struct
class __wp_Cursor:
    record: int
    node: int
    end: int
    item: int
    last_item: int


@__wp.func
def __wp_cursor(record: int, root: int):
    ints = __wp.geometry_ints()
    cursor = __wp_Cursor()
    cursor.record = record
    cursor.node = root
    if root == -1:
        cursor.node = ints[record + 1]
    cursor.end = -1
    if cursor.node >= 0:
        cursor.end = ints[ints[record + 2] + 5 * cursor.node + 4]
    return cursor


@__wp.func
def __wp_next_item(cursor: __wp.ref[__wp_Cursor], query: __typing.Any, test: __wp.Function, max_dist: float):
    ints = __wp.geometry_ints()
    vectors = __wp.geometry_vectors()
    found = int(-1)
    while found < 0 and (cursor.item < cursor.last_item or cursor.node != cursor.end):
        is_item = cursor.item < cursor.last_item
        at = int(0)
        if is_item:
            found = ints[ints[cursor.record + 4] + cursor.item]
            cursor.item += 1
            at = ints[cursor.record + 5] + 2 * found
        else:
            at = ints[cursor.record + 3] + 2 * cursor.node
        is_met = test(query, vectors[at], vectors[at + 1], max_dist)
        if is_item:
            if not is_met:
                found = -1
        else:
            link = ints[cursor.record + 2] + 5 * cursor.node
            cursor.node = ints[link + 4]
            if is_met:
                if ints[link + 2] == 1:
                    cursor.item = ints[link]
                    cursor.last_item = ints[link + 1]
                else:
                    cursor.node = ints[link + 1]
    return found


@__wp.struct
class __wp_BoxQuery:
    cursor: __wp_Cursor
    lower: __wp.vec3
    upper: __wp.vec3


@__wp.struct
class __wp_RayQuery:
    cursor: __wp_Cursor
    start: __wp.vec3
    reciprocal: __wp.vec3


@__wp.struct
class __wp_SphereQuery:
    cursor: __wp_Cursor
    center: __wp.vec3
    radius: float


@__wp.func
def __wp_meets_box(query: __wp_BoxQuery, lower: __wp.vec3, upper: __wp.vec3, max_dist: float):
    is_apart = bool(False)
    for axis in range(3):
        if query.lower[axis] > upper[axis] or query.upper[axis] < lower[axis]:
            is_apart = True
    return not is_apart


@__wp.func
def __wp_meets_ray(query: __wp_RayQuery, lower: __wp.vec3, upper: __wp.vec3, max_dist: float):
    a = __wp.cw_mul(lower - query.start, query.reciprocal)
    b = __wp.cw_mul(upper - query.start, query.reciprocal)
    first = __wp.min(a[0], b[0])
    last = __wp.max(a[0], b[0])
    for axis in range(1, 3):
        first = __wp.max(__wp.min(a[axis], b[axis]), first)
        last = __wp.min(__wp.max(a[axis], b[axis]), last)
    return last >= 0.0 and last >= first and not first >= max_dist


@__wp.func
def __wp_meets_sphere(query: __wp_SphereQuery, lower: __wp.vec3, upper: __wp.vec3, max_dist: float):
    square = float(0.0)
    for axis in range(3):
        outside = __wp.max(__wp.max(lower[axis] - query.center[axis], query.center[axis] - upper[axis]), 0.0)
        square += outside * outside
    return square <= query.radius * query.radius


@__wp.func
def __wp_box_query(record: int, lower: __wp.vec3, upper: __wp.vec3, root: int):
    query = __wp_BoxQuery()
    query.cursor = __wp_cursor(record, root)
    query.lower = lower
    query.upper = upper
    return query


@__wp.func
def __wp_bvh_query_aabb(id: __wp.uint64, low: __wp.vec3, high: __wp.vec3, root: int = -1):
    return __wp_box_query(__wp_record(id, 1, 2), low, high, root)


@__wp.func
def __wp_bvh_query_ray(id: __wp.uint64, start: __wp.vec3, dir: __wp.vec3, root: int = -1):
    query = __wp_RayQuery()
    query.cursor = __wp_cursor(__wp_record(id, 1, 2), root)
    query.start = start
    query.reciprocal = __wp.vec3(1.0 / dir[0], 1.0 / dir[1], 1.0 / dir[2])
    return query


@__wp.func
def __wp_bvh_query_sphere(id: __wp.uint64, center: __wp.vec3, radius: float, root: int = -1):
    query = __wp_SphereQuery()
    query.cursor = __wp_cursor(__wp_record(id, 1, 2), root)
    query.center = center
    query.radius = __wp.max(radius, 0.0)
    return query


@__wp.func
def __wp_bvh_query_next(query: __wp.ref[__wp_BoxQuery], index: __wp.ref[int], max_dist: float = __wp.inf):
    item = __wp_next_item(query.cursor, query, __wp_meets_box, max_dist)
    if item >= 0:
        index = item
    return item >= 0


@__wp.func
def __wp_bvh_query_next(query: __wp.ref[__wp_RayQuery], index: __wp.ref[int], max_dist: float = __wp.inf):
    item = __wp_next_item(query.cursor, query, __wp_meets_ray, max_dist)
    if item >= 0:
        index = item
    return item >= 0


@__wp.func
def __wp_bvh_query_next(query: __wp.ref[__wp_SphereQuery], index: __wp.ref[int], max_dist: float = __wp.inf):
    item = __wp_next_item(query.cursor, query, __wp_meets_sphere, max_dist)
    if item >= 0:
        index = item
    return item >= 0


@__wp.func
def __wp_mesh_query_aabb(id: __wp.uint64, low: __wp.vec3, high: __wp.vec3):
    return __wp_box_query(__wp_record(id, 1, 1), low, high, -1)


@__wp.func
def __wp_mesh_query_aabb_next(query: __wp.ref[__wp_BoxQuery], index: __wp.ref[int]):
    return __wp_bvh_query_next(query, index)


# The first leaf whose group is `group` or a later one, or is a later one.
@__wp.func
def __wp_first_leaf(record: int, group: int, is_later: bool):
    ints = __wp.geometry_ints()
    low = int(0)
    high = ints[record + 7]
    while low < high:
        middle = (low + high) // 2
        own = int(0)
        if ints[record + 6] >= 0:
            own = ints[ints[record + 6] + ints[ints[record + 4] + ints[ints[record + 2] + 5 * middle]]]
        if own < group or is_later and own == group:
            low = middle + 1
        else:
            high = middle
    return low


@__wp.func
def __wp_height(record: int, node: int):
    ints = __wp.geometry_ints()
    height = int(0)
    above = node
    while above >= 0:
        above = ints[ints[record + 2] + 5 * above + 3]
        height += 1
    return height


# The lowest node above all leaves of a group.
@__wp.func
def __wp_group_root(record: int, group: int):
    ints = __wp.geometry_ints()
    links = ints[record + 2]
    node = __wp_first_leaf(record, group, False)
    other = __wp_first_leaf(record, group, True) - 1
    if other < node:
        return -1
    while node != other:
        if __wp_height(record, node) >= __wp_height(record, other):
            node = ints[links + 5 * node + 3]
        else:
            other = ints[links + 5 * other + 3]
    return node


@__wp.func
def __wp_bvh_get_group_root(id: __wp.uint64, group: int):
    return __wp_group_root(__wp_record(id, 1, 2), group)


@__wp.func
def __wp_mesh_get_group_root(id: __wp.uint64, group: int):
    return __wp_group_root(__wp_record(id, 1, 1), group)


@__wp.func
def __wp_mesh_get_bvh(id: __wp.uint64):
    return __wp_handle(__wp_record(id, 1, 1) + 16)


@__wp.struct
class __wp_Mesh:
    points: __wp.array(dtype=__wp.vec3)
    velocities: __wp.array(dtype=__wp.vec3)
    indices: __wp.array(dtype=int)


@__wp.func
def __wp_mesh_get(id: __wp.uint64):
    ints = __wp.geometry_ints()
    vectors = __wp.geometry_vectors()
    record = __wp_record(id, 1, 1)
    mesh = __wp_Mesh()
    mesh.points = vectors[ints[record + 8]:ints[record + 8] + ints[record + 9]]
    mesh.velocities = vectors[ints[record + 10]:ints[record + 10] + ints[record + 11]]
    mesh.indices = ints[ints[record + 12]:ints[record + 12] + ints[record + 13]]
    return mesh


@__wp.func
def __wp_corner(record: int, corner: int):
    ints = __wp.geometry_ints()
    assert corner >= 0 and corner < ints[record + 13]
    return ints[ints[record + 12] + corner]


# The points of a face as rows.
@__wp.func
def __wp_face(record: int, face: int):
    vectors = __wp.geometry_vectors()
    points = __wp.geometry_ints()[record + 8]
    return __wp.matrix_from_rows(
        vectors[points + __wp_corner(record, 3 * face)],
        vectors[points + __wp_corner(record, 3 * face + 1)],
        vectors[points + __wp_corner(record, 3 * face + 2)],
    )


@__wp.func
def __wp_mesh_get_index(id: __wp.uint64, index: int):
    return __wp_corner(__wp_record(id, 1, 1), index)


@__wp.func
def __wp_mesh_get_point(id: __wp.uint64, index: int):
    record = __wp_record(id, 1, 1)
    return __wp.geometry_vectors()[__wp.geometry_ints()[record + 8] + __wp_corner(record, index)]


@__wp.func
def __wp_velocity(record: int, index: int):
    ints = __wp.geometry_ints()
    result = __wp.vec3()
    if ints[record + 11] > 0:
        result = __wp.geometry_vectors()[ints[record + 10] + __wp_corner(record, index)]
    return result


@__wp.func
def __wp_mesh_get_velocity(id: __wp.uint64, index: int):
    return __wp_velocity(__wp_record(id, 1, 1), index)


@__wp.func
def __wp_mesh_eval_position(id: __wp.uint64, face: int, bary_u: float, bary_v: float):
    corners = __wp_face(__wp_record(id, 1, 1), face)
    return corners[0] * bary_u + corners[1] * bary_v + corners[2] * (1.0 - bary_u - bary_v)


@__wp.func
def __wp_mesh_eval_velocity(id: __wp.uint64, face: int, bary_u: float, bary_v: float):
    record = __wp_record(id, 1, 1)
    a = __wp_velocity(record, 3 * face)
    b = __wp_velocity(record, 3 * face + 1)
    c = __wp_velocity(record, 3 * face + 2)
    return a * bary_u + b * bary_v + c * (1.0 - bary_u - bary_v)


@__wp.func
def __wp_mesh_eval_face_normal(id: __wp.uint64, face: int):
    corners = __wp_face(__wp_record(id, 1, 1), face)
    return __wp.normalize(__wp.cross(corners[1] - corners[0], corners[2] - corners[0]))
