# Queries of hash grids. A record has, after the kind, the numbers of cells along x, y and z, the bits of the inverse of their width, the
# offsets of the first point and of the end of each cell, the offset of the points in the order of cells and their number, and the offset
# of the group of each of these points, or -1.

@__wp.struct
class __wp_GridQuery:
    record: int
    first: __wp.vec3i
    last: __wp.vec3i
    cell: __wp.vec3i
    point: int
    end: int
    has_group: bool
    group: int


# The coordinate of the cell of a number. Infinite ones are clamped, NaN is in cell 0.
@__wp.func
def __wp_cell(x: float):
    return __wp.min(int(__wp.floor(x)), 2147483646)


@__wp.func
def __wp_wrapped(cell: int, count: int):
    rest = cell % count
    if rest < 0:
        rest += count
    return rest


@__wp.func
def __wp_enter_cell(query: __wp.ref[__wp_GridQuery]):
    ints = __wp.geometry_ints()
    counts = __wp.vec3i(ints[query.record + 1], ints[query.record + 2], ints[query.record + 3])
    x = __wp_wrapped(query.cell[0], counts[0])
    y = __wp_wrapped(query.cell[1], counts[1])
    cell = (__wp_wrapped(query.cell[2], counts[2]) * counts[1] + y) * counts[0] + x
    query.point = ints[ints[query.record + 5] + cell]
    query.end = ints[ints[query.record + 6] + cell]


@__wp.func
def __wp_grid_query(id: __wp.uint64, point: __wp.vec3, radius: float):
    ints = __wp.geometry_ints()
    query = __wp_GridQuery()
    query.record = __wp_record(id, 3, 3)
    inverse_width = __wp.cast(ints[query.record + 4], float)
    for axis in range(3):
        first = __wp_cell((point[axis] - radius) * inverse_width)
        last = __wp_cell((point[axis] + radius) * inverse_width)
        # No cell is visited twice.
        count = ints[query.record + 1 + axis]
        if __wp.int64(last) - __wp.int64(first) >= __wp.int64(count):
            last = first + count - 1
        query.first[axis] = first
        query.last[axis] = last
    query.cell = query.first
    __wp_enter_cell(query)
    return query


@__wp.func
def __wp_hash_grid_query(id: __wp.uint64, point: __wp.vec3, max_dist: float):
    return __wp_grid_query(id, point, max_dist)


@__wp.func
def __wp_hash_grid_query(id: __wp.uint64, point: __wp.vec3, max_dist: float, group: int):
    query = __wp_grid_query(id, point, max_dist)
    query.has_group = __wp.geometry_ints()[query.record + 9] >= 0
    query.group = group
    return query


@__wp.func
def __wp_hash_grid_query_next(query: __wp.ref[__wp_GridQuery], index: __wp.ref[int]):
    ints = __wp.geometry_ints()
    is_found = bool(False)
    is_left = bool(True)
    while is_left and not is_found:
        if query.point < query.end:
            is_found = True
            if query.has_group:
                is_found = ints[ints[query.record + 9] + query.point] == query.group
            if is_found:
                index = ints[ints[query.record + 7] + query.point]
            query.point += 1
        else:
            axis = int(0)
            while axis < 3 and query.cell[axis] >= query.last[axis]:
                query.cell[axis] = query.first[axis]
                axis += 1
            is_left = axis < 3
            if is_left:
                query.cell[axis] += 1
                __wp_enter_cell(query)
    if not is_left:
        query.cell = query.last
    return is_found


@__wp.func
def __wp_hash_grid_point_id(id: __wp.uint64, index: int):
    ints = __wp.geometry_ints()
    record = __wp_record(id, 3, 3)
    assert index >= 0 and index < ints[record + 8]
    return ints[ints[record + 7] + index]
