"""Compares queries of meshes, hierarchies, hash grids and volumes by translated kernels with Warp on the CPU.

    python3 warp_geometry.py --bin FOLDER

FOLDER has accelerd, of which a daemon is started. Prints each result that differs, and how many were compared.
"""

# ruff: noqa: RUF046, UP018 - a call of a type makes a variable of a kernel

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from accelerd import Client, geometry
from warp_coverage import daemon

POINTS = 2000
RELATIVE, ABSOLUTE = 1e-5, 1e-6
ROOM = 48


@wp.func
def put(row: wp.array(dtype=int), n: int, value: int):
    if n < row.shape[0]:
        row[n] = value
    return n + 1


@wp.kernel
def nearest(
    id: wp.uint64,
    p: wp.array(dtype=wp.vec3),
    face: wp.array2d(dtype=int),
    at: wp.array2d(dtype=wp.vec3),
):
    i = wp.tid()
    a = wp.mesh_query_point(id, p[i], 1.0e6)
    b = wp.mesh_query_point_no_sign(id, p[i], 0.5)
    c = wp.mesh_query_furthest_point_no_sign(id, p[i], 0.0)
    face[i, 0] = a.face
    face[i, 1] = b.face
    face[i, 2] = c.face
    at[i, 0] = wp.vec3(a.u, a.v, a.sign)
    at[i, 1] = wp.mesh_eval_position(id, a.face, a.u, a.v) + wp.mesh_eval_velocity(id, a.face, a.u, a.v)
    at[i, 2] = wp.vec3(c.u, c.v, float(b.result)) + wp.mesh_eval_face_normal(id, a.face)


@wp.kernel
def signed(
    id: wp.uint64,
    p: wp.array(dtype=wp.vec3),
    face: wp.array2d(dtype=int),
    at: wp.array2d(dtype=wp.vec3),
):
    i = wp.tid()
    a = wp.mesh_query_point_sign_normal(id, p[i], 1.0e6)
    b = wp.mesh_query_point_sign_parity(id, p[i], 1.0e6, n_sample=3)
    c = wp.mesh_query_point_sign_winding_number(id, p[i], 1.0e6, 2.0, 0.5)
    face[i, 0] = a.face
    face[i, 1] = b.face
    face[i, 2] = c.face
    at[i, 0] = wp.vec3(a.u, a.v, a.sign)
    at[i, 1] = wp.vec3(b.u, b.v, b.sign)
    at[i, 2] = wp.vec3(c.u, c.v, c.sign)


@wp.kernel
def rays(
    id: wp.uint64,
    p: wp.array(dtype=wp.vec3),
    face: wp.array2d(dtype=int),
    at: wp.array2d(dtype=wp.vec3),
):
    i = wp.tid()
    dir = p[(i + 7) % p.shape[0]]
    if i % 2 == 0:
        dir = wp.vec3(float(i % 3 == 0), float(i % 3 == 1), float(i % 3 == 2))
    hit = wp.mesh_query_ray(id, p[i], dir, 1.0e6)
    face[i, 0] = hit.face
    face[i, 1] = int(wp.mesh_query_ray_anyhit(id, p[i], dir, 1.5))
    face[i, 2] = wp.mesh_query_ray_count_intersections(id, p[i], dir)
    if hit.result:
        at[i, 0] = wp.vec3(hit.u, hit.v, hit.t)
        at[i, 1] = hit.normal * wp.sign(hit.sign)


@wp.kernel
def faces(
    id: wp.uint64,
    p: wp.array(dtype=wp.vec3),
    found: wp.array2d(dtype=int),
    at: wp.array2d(dtype=wp.vec3),
):
    i = wp.tid()
    n = int(0)
    size = wp.vec3(0.2, 0.2, 0.2)
    for face in wp.mesh_query_aabb(id, p[i] - size, p[i] + size):
        n = put(found[i], n, face)
    query = wp.bvh_query_ray(wp.mesh_get_bvh(id), p[i], size)
    item = int(0)
    while wp.bvh_query_next(query, item, 2.0):
        n = put(found[i], n, item)
    mesh = wp.mesh_get(id)
    k = i % mesh.indices.shape[0]
    at[i, 0] = mesh.points[mesh.indices[k]] + mesh.velocities[mesh.indices[k]]
    at[i, 1] = wp.mesh_get_point(id, k) + wp.mesh_get_velocity(id, k) + wp.vec3(float(wp.mesh_get_index(id, k)))


@wp.kernel
def items(
    id: wp.uint64,
    p: wp.array(dtype=wp.vec3),
    found: wp.array2d(dtype=int),
    at: wp.array2d(dtype=wp.vec3),
):
    i = wp.tid()
    n = int(0)
    item = int(0)
    size = wp.vec3(0.6, 0.6, 0.6)
    root = wp.bvh_get_group_root(id, i % 5)
    if root >= 0:
        of_group = wp.bvh_query_aabb(id, p[i] - size, p[i] + size, root)
        while wp.bvh_query_next(of_group, item):
            n = put(found[i], n, item)
    sphere = wp.bvh_query_sphere(id, p[i], 0.3)
    while wp.bvh_query_next(sphere, item):
        n = put(found[i], n, item)


@wp.kernel
def neighbors(
    id: wp.uint64,
    p: wp.array(dtype=wp.vec3),
    found: wp.array2d(dtype=int),
    at: wp.array2d(dtype=wp.vec3),
):
    i = wp.tid()
    n = int(0)
    center = p[wp.hash_grid_point_id(id, i)]
    for near in wp.hash_grid_query(id, center, 0.3):
        if wp.length(p[near] - center) < 0.3:
            n = put(found[i], n, near)
    for near in wp.hash_grid_query(id, center, 0.4, i % 3):
        n = put(found[i], n, near)


@wp.kernel
def voxels(
    id: wp.uint64,
    p: wp.array(dtype=wp.vec3),
    found: wp.array2d(dtype=int),
    at: wp.array2d(dtype=wp.vec3),
):
    i = wp.tid()
    uvw = wp.volume_world_to_index(id, p[i])
    x = int(uvw[0])
    y = int(uvw[1])
    z = int(uvw[2])
    slope = wp.vec3()
    found[i, 0] = wp.volume_lookup_index(id, x, y, z)
    found[i, 1] = wp.volume_lookup_i(id, x, y, z) + wp.volume_sample_i(id, uvw)
    found[i, 2] = wp.volume_voxel_count(id)
    value = wp.volume_sample_f(id, uvw, wp.Volume.LINEAR) + wp.volume_lookup_f(id, x, y, z)
    at[i, 0] = wp.vec3(value, wp.volume_sample_grad_f(id, uvw, wp.Volume.LINEAR, slope), 0.0)
    at[i, 1] = slope + wp.volume_sample_v(id, uvw, wp.Volume.LINEAR) + wp.volume_lookup_v(id, x, y, z)
    at[i, 2] = wp.volume_index_to_world(id, uvw) + wp.volume_index_to_world_dir(id, uvw)


def meshes(rng: np.random.Generator) -> Iterator[tuple[str, wp.Mesh]]:
    box = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float32)
    sides = [
        [0, 1, 3, 2],
        [4, 6, 7, 5],
        [0, 4, 5, 1],
        [2, 3, 7, 6],
        [0, 2, 6, 4],
        [1, 5, 7, 3],
    ]
    corners = np.array([half for a, b, c, d in sides for half in ((a, b, c), (a, c, d))], np.int32)
    rings, around = 24, 40
    angles = np.meshgrid(
        np.linspace(0.01, np.pi - 0.01, rings),
        np.arange(around) * 2 * np.pi / around,
        indexing="ij",
    )
    theta, phi = (one.reshape(-1) for one in angles)
    ball = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], 1)
    ball = (ball * (1 + 0.2 * rng.random((len(ball), 1)))).astype(np.float32)
    grid = np.arange(rings * around).reshape(rings, around)
    a, b, c, d = (
        grid[:-1],
        np.roll(grid, -1, 1)[:-1],
        np.roll(grid, -1, 1)[1:],
        grid[1:],
    )
    bands = np.stack([np.stack([a, d, c], -1), np.stack([a, c, b], -1)]).reshape(-1, 3).astype(np.int32)
    for name, points, triangles in (("box", box, corners), ("ball", ball, bands)):
        velocities = wp.array(rng.standard_normal(points.shape).astype(np.float32), dtype=wp.vec3)
        for tree in ("sah", "median", "cubql"):
            mesh = wp.Mesh(
                wp.array(points, dtype=wp.vec3),
                wp.array(triangles.reshape(-1), dtype=int),
                velocities,
                support_winding_number=tree != "cubql",
                bvh_constructor=tree,
            )
            yield f"{name}, {tree}", mesh


def volumes(rng: np.random.Generator) -> Iterator[tuple[str, wp.Volume]]:
    tiles = wp.array(rng.integers(-30, 30, (40, 3)).astype(np.int32))
    dense = rng.standard_normal((20, 17, 23)).astype(np.float32)
    yield "float32", wp.Volume.load_from_numpy(dense, (-1.0, -2.0, 0.5), 0.1, 7.5)
    vectors = rng.standard_normal((9, 9, 9, 3)).astype(np.float32)
    yield (
        "vec3",
        wp.Volume.load_from_numpy(vectors, (-1.0, -1.0, -1.0), 0.2, (1.0, 2.0, 3.0)),
    )
    yield "int32", wp.Volume.allocate_by_tiles(tiles, voxel_size=0.05, bg_value=3)
    yield "index", wp.Volume.allocate_by_voxels(tiles, voxel_size=0.05)


def launches(
    rng: np.random.Generator,
) -> Iterator[tuple[str, wp.Kernel, Any, np.ndarray]]:
    """Yield names, kernels, objects and points."""
    spread = [
        rng.uniform(-2, 2, (POINTS // 2, 3)),
        rng.integers(-3, 4, (POINTS // 2, 3)) * 0.45 + 0.05,
    ]
    points = np.concatenate(spread).astype(np.float32)
    for name, mesh in meshes(rng):
        for kernel in (nearest, signed, rays, faces):
            yield name, kernel, mesh, points
    lowers = rng.uniform(-2, 2, (500, 3)).astype(np.float32)
    uppers = lowers + rng.uniform(0, 0.4, (500, 3)).astype(np.float32)
    groups = wp.array(rng.integers(0, 4, 500).astype(np.int32))
    for tree, of in (("sah", groups), ("median", groups), ("cubql", None)):
        corners = (wp.array(one, dtype=wp.vec3) for one in (lowers, uppers))
        yield (
            f"boxes, {tree}",
            items,
            wp.Bvh(*corners, constructor=tree, groups=of),
            points,
        )
    for of in (None, wp.array(rng.integers(0, 3, POINTS).astype(np.int32))):
        grid = wp.HashGrid(7, 5, 6)
        grid.build(wp.array(points, dtype=wp.vec3), 0.4, groups=of)
        yield "points", neighbors, grid, points
    for name, volume in volumes(rng):
        yield name, voxels, volume, points


def differs(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Return the first element that differs; empty if there is none."""
    near = np.isclose(ours, theirs, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)
    if near.all():
        return ""
    at = tuple(int(one) for one in np.argwhere(~near)[0])
    return f"{(~near).sum()} of {near.size}, at {list(at)}: {ours[at]} translated, {theirs[at]} by Warp"


def compare(client: Client) -> int:
    """Return the number of launches whose results differ."""
    total = wrong = bits = 0
    for name, kernel, queried, points in launches(np.random.default_rng(1)):
        before = [
            np.full((POINTS, ROOM), -1, np.int32),
            np.zeros((POINTS, 3, 3), np.float32),
        ]
        ours = client.compile(kernel, dialect="warp").launch(
            queried.id,
            points,
            *before,
            grid=POINTS,
            outputs=[kernel.adj.args[2].label, "at"],
            **geometry(queried),
        )
        found = [wp.array(before[0]), wp.array(before[1], dtype=wp.vec3)]
        wp.launch(
            kernel,
            POINTS,
            [queried.id, wp.array(points, dtype=wp.vec3), *found],
            device="cpu",
        )
        for array, (label, mine) in zip(found, ours.items(), strict=True):
            total += 1
            bits += mine.tobytes() == array.numpy().tobytes()
            if difference := differs(mine, array.numpy()):
                wrong += 1
                print(f"{kernel.key} ({name}): {label}: {difference}")
    print(f"{total} arrays: {bits} have the same bits, {wrong} differ by more than {RELATIVE}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--bin", type=Path, help="the folder of accelerd")
    where.add_argument("--server", help="a daemon that runs already")
    given = parser.parse_args()
    wp.config.quiet = True
    wp.init()
    # Contraction to fused multiply-adds is a documented difference.
    wp.set_module_options({"fuse_fp": False, "enable_backward": False})
    served = daemon(given.bin) if given.bin else contextlib.nullcontext(given.server)
    with served as address, Client(address, timeout=600) as client:
        raise SystemExit(compare(client) > 0)


if __name__ == "__main__":
    main()
