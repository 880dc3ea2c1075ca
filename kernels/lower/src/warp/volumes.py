# Queries of volumes, which are grids of NanoVDB. A record has, after the kind, the offset of the grid, the type of its values (1 float,
# 4 int32, 6 vec3, 10 uint32, 19 index, 20 index of active voxels), the number of voxels, and in 32-bit words: 4 the place of the root,
# 5 its number of tiles, 6 the place of the first in the root, 7 the size of a tile, 8 the place of its value, 9 the background's place
# in the root, 10, 11, 12 the places of the tables in upper, lower and leaf nodes, 13 the size of an entry of the first two, 14 that of
# a value of a leaf, 15 the place of the first leaf, 16 the size of a leaf.

# Where the value of a voxel is, and its leaf, or -1 if it is in none, and its number in the leaf.
@__wp.struct
class __wp_Voxel:
    at: int
    leaf: int
    number: int


@__wp.func
def __wp_is_set(at: int, bit: int):
    return (__wp.uint32(__wp.geometry_ints()[at + bit // 32]) >> __wp.uint32(bit % 32)) & __wp.uint32(1) == __wp.uint32(1)


@__wp.func
def __wp_voxel(record: int, i: int, j: int, k: int):
    ints = __wp.geometry_ints()
    root = ints[record + 1] + ints[record + 4]
    voxel = __wp_Voxel(root + ints[record + 9], -1, 0)
    x = __wp.uint64(__wp.uint32(i) >> __wp.uint32(12))
    y = __wp.uint64(__wp.uint32(j) >> __wp.uint32(12))
    z = __wp.uint64(__wp.uint32(k) >> __wp.uint32(12))
    key = z | (y << __wp.uint64(21)) | (x << __wp.uint64(42))
    upper = int(-1)
    for nth in range(ints[record + 5]):
        tile = root + ints[record + 6] + nth * ints[record + 7]
        if __wp_handle(tile) == key:
            voxel.at = tile + ints[record + 8]
            if __wp_handle(tile + 2) != __wp.uint64(0):
                upper = root + ints[tile + 2] // 4
            break
    if upper >= 0:
        nth = (((i & 4095) >> 7) << 10) | (((j & 4095) >> 7) << 5) | ((k & 4095) >> 7)
        voxel.at = upper + ints[record + 10] + nth * ints[record + 13]
        if __wp_is_set(upper + 1032, nth):
            lower = upper + ints[voxel.at] // 4
            nth = (((i & 127) >> 3) << 8) | (((j & 127) >> 3) << 4) | ((k & 127) >> 3)
            voxel.at = lower + ints[record + 11] + nth * ints[record + 13]
            if __wp_is_set(lower + 136, nth):
                voxel.leaf = lower + ints[voxel.at] // 4
                voxel.number = ((i & 7) << 6) | ((j & 7) << 3) | (k & 7)
                voxel.at = voxel.leaf + ints[record + 12] + voxel.number * ints[record + 14]
    return voxel


# The index of a voxel, or -1.
@__wp.func
def __wp_voxel_index(record: int, i: int, j: int, k: int):
    ints = __wp.geometry_ints()
    voxel = __wp_voxel(record, i, j, k)
    if voxel.leaf < 0:
        return -1
    kind = ints[record + 2]
    if kind == 20:
        mask = __wp_handle(voxel.leaf + 4 + voxel.number // 64 * 2)
        bit = __wp.uint64(1) << __wp.uint64(voxel.number % 64)
        if mask & bit == __wp.uint64(0):
            return -1
        index = ints[voxel.at] + int(__wp.bit_count(mask & (bit - __wp.uint64(1))))
        if voxel.number >= 64:
            before = __wp_handle(voxel.at + 2) >> __wp.uint64(9 * (voxel.number // 64 - 1))
            index += int(before & __wp.uint64(511))
        return index - 1
    if kind == 19:
        return ints[voxel.at] + voxel.number - 1
    return (voxel.leaf - ints[record + 1] - ints[record + 15]) // ints[record + 16] * 512 + voxel.number


@__wp.func
def __wp_volume_lookup_index(id: __wp.uint64, i: int, j: int, k: int):
    return __wp_voxel_index(__wp_record(id, 4, 4), i, j, k)


@__wp.func
def __wp_volume_voxel_count(id: __wp.uint64):
    return __wp.geometry_ints()[__wp_record(id, 4, 4) + 3]


@__wp.func
def __wp_voxel_f(record: int, i: int, j: int, k: int):
    if __wp.geometry_ints()[record + 2] != 1:
        return 0.0
    return __wp.cast(__wp.geometry_ints()[__wp_voxel(record, i, j, k).at], float)


@__wp.func
def __wp_voxel_i(record: int, i: int, j: int, k: int):
    if __wp.geometry_ints()[record + 2] != 4:
        return 0
    return __wp.geometry_ints()[__wp_voxel(record, i, j, k).at]


@__wp.func
def __wp_voxel_v(record: int, i: int, j: int, k: int):
    ints = __wp.geometry_ints()
    if ints[record + 2] != 6:
        return __wp.vec3()
    at = __wp_voxel(record, i, j, k).at
    return __wp.vec3(__wp.cast(ints[at], float), __wp.cast(ints[at + 1], float), __wp.cast(ints[at + 2], float))


@__wp.func
def __wp_volume_lookup_f(id: __wp.uint64, i: int, j: int, k: int):
    return __wp_voxel_f(__wp_record(id, 4, 4), i, j, k)


@__wp.func
def __wp_volume_lookup_i(id: __wp.uint64, i: int, j: int, k: int):
    return __wp_voxel_i(__wp_record(id, 4, 4), i, j, k)


@__wp.func
def __wp_volume_lookup_v(id: __wp.uint64, i: int, j: int, k: int):
    return __wp_voxel_v(__wp_record(id, 4, 4), i, j, k)


# The value at a point by a function of the voxels: that of the nearest one in mode 0, linear in mode 1.
@__wp.func
def __wp_sampled(record: int, uvw: __wp.vec3, sampling_mode: int, value: __wp.Function, zero: __typing.Any):
    if sampling_mode == 0:
        return value(record, int(__wp.round(uvw[0])), int(__wp.round(uvw[1])), int(__wp.round(uvw[2])))
    total = zero
    if sampling_mode == 1:
        base = __wp.vec3(__wp.floor(uvw[0]), __wp.floor(uvw[1]), __wp.floor(uvw[2]))
        part = uvw - base
        for nth in range(8):
            at = __wp.vec3i(nth // 4, nth // 2 % 2, nth % 2)
            weights = __wp.vec3(1.0, 1.0, 1.0) - part
            for axis in range(3):
                if at[axis] == 1:
                    weights[axis] = part[axis]
            found = value(record, int(base[0]) + at[0], int(base[1]) + at[1], int(base[2]) + at[2])
            total += weights[0] * weights[1] * weights[2] * found
    return total


@__wp.func
def __wp_volume_sample_f(id: __wp.uint64, uvw: __wp.vec3, sampling_mode: int):
    return __wp_sampled(__wp_record(id, 4, 4), uvw, sampling_mode, __wp_voxel_f, 0.0)


@__wp.func
def __wp_volume_sample_v(id: __wp.uint64, uvw: __wp.vec3, sampling_mode: int):
    return __wp_sampled(__wp_record(id, 4, 4), uvw, sampling_mode, __wp_voxel_v, __wp.vec3())


@__wp.func
def __wp_volume_sample_i(id: __wp.uint64, uvw: __wp.vec3):
    record = __wp_record(id, 4, 4)
    return __wp_voxel_i(record, int(__wp.round(uvw[0])), int(__wp.round(uvw[1])), int(__wp.round(uvw[2])))


@__wp.func
def __wp_volume_sample_grad_f(id: __wp.uint64, uvw: __wp.vec3, sampling_mode: int, grad: __wp.ref[__wp.vec3]):
    record = __wp_record(id, 4, 4)
    slope = __wp.vec3()
    if sampling_mode == 1:
        base = __wp.vec3(__wp.floor(uvw[0]), __wp.floor(uvw[1]), __wp.floor(uvw[2]))
        part = uvw - base
        for nth in range(8):
            at = __wp.vec3i(nth // 4, nth // 2 % 2, nth % 2)
            weights = __wp.vec3(1.0, 1.0, 1.0) - part
            signs = __wp.vec3(-1.0, -1.0, -1.0)
            for axis in range(3):
                if at[axis] == 1:
                    weights[axis] = part[axis]
                    signs[axis] = 1.0
            found = __wp_voxel_f(record, int(base[0]) + at[0], int(base[1]) + at[1], int(base[2]) + at[2])
            others = __wp.vec3(weights[1] * weights[2], weights[0] * weights[2], weights[0] * weights[1])
            slope += found * __wp.cw_mul(signs, others)
    grad = slope
    return __wp_sampled(record, uvw, sampling_mode, __wp_voxel_f, 0.0)


@__wp.func
def __wp_transformed(record: int, matrix: int, v: __wp.vec3):
    ints = __wp.geometry_ints()
    at = ints[record + 1] + matrix
    result = __wp.vec3()
    for row in range(3):
        a = __wp.cast(ints[at + 3 * row], float)
        b = __wp.cast(ints[at + 3 * row + 1], float)
        c = __wp.cast(ints[at + 3 * row + 2], float)
        result[row] = v[0] * a + v[1] * b + v[2] * c
    return result


@__wp.func
def __wp_origin(record: int):
    ints = __wp.geometry_ints()
    at = ints[record + 1] + 92
    return __wp.vec3(__wp.cast(ints[at], float), __wp.cast(ints[at + 1], float), __wp.cast(ints[at + 2], float))


@__wp.func
def __wp_volume_index_to_world(id: __wp.uint64, uvw: __wp.vec3):
    record = __wp_record(id, 4, 4)
    return __wp_transformed(record, 74, uvw) + __wp_origin(record)


@__wp.func
def __wp_volume_index_to_world_dir(id: __wp.uint64, uvw: __wp.vec3):
    return __wp_transformed(__wp_record(id, 4, 4), 74, uvw)


@__wp.func
def __wp_volume_world_to_index(id: __wp.uint64, xyz: __wp.vec3):
    record = __wp_record(id, 4, 4)
    return __wp_transformed(record, 83, xyz - __wp_origin(record))


@__wp.func
def __wp_volume_world_to_index_dir(id: __wp.uint64, xyz: __wp.vec3):
    return __wp_transformed(__wp_record(id, 4, 4), 83, xyz)
