//! Queries of meshes, hierarchies, hash grids and volumes, on tables that are written here. `tests/bench/warp_geometry.py` compares them with
//! Warp on tables of the client.

mod common;

use accelerd_ir::kernel::{Argument, FaultKind};
use accelerd_lower::{Dialect, ErrorKind, lower};
use common::{elements, options, read, refused_body, run, value_of, whole_fault};

const MESH: u64 = (1 << 32) + 7;
const BVH: u64 = (1 << 32) + 99;
const GRID: u64 = 5;
const UNKNOWN: u64 = 6;

/// A mesh, which is a square of two faces, its hierarchy, whose leaves are of the groups 5 and 9, and a grid of two cells and three points.
fn tables() -> [Argument; 2] {
    let words = |handle: u64| {
        [handle, handle >> 32].map(|word| u32::try_from(word & 0xffff_ffff).expect("32 bits").cast_signed())
    };
    let [mesh, bvh, grid] = [MESH, BVH, GRID].map(words);
    let mut ints = vec![3, grid[0], grid[1], 49, mesh[0], mesh[1], 10, bvh[0], bvh[1], 10];
    // The record, nodes, items, groups and indices.
    ints.extend([1, 2, 28, 0, 43, 6, 45, 2, 10, 4, 0, 0, 59, 6, 1.0_f32.to_bits().cast_signed(), 0, bvh[0], bvh[1]]);
    ints.extend([0, 1, 1, 2, -1, 1, 2, 1, 2, 0, 0, 1, 0, -1, -1]);
    ints.extend([0, 1, 5, 9, 0, 0]);
    // The grid: its record, first points and ends of cells, and points.
    ints.extend([3, 2, 1, 1, 1.0_f32.to_bits().cast_signed(), 65, 67, 69, 3, -1]);
    ints.extend([0, 1, 2, 1, 3, 2]);
    ints.extend([0, 2, 2, 3, 2, 0, 1]);
    let node = [[0.0_f32, 0.0, 0.0], [1.0, 1.0, 0.0]];
    let points = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]];
    let vectors = [node, node, node, node, node].concat().into_iter().chain(points).flatten().collect::<Vec<_>>();
    [Argument::array(&ints), elements(&vectors, 3)]
}

/// What a body of statements writes to `out`, where `id` is a handle.
fn results(id: u64, body: &str) -> Vec<f32> {
    let [ints, vectors] = tables();
    let mut arguments = vec![value_of(&[id]), Argument::array(&[-1.0_f32; 8]), ints, vectors];
    let source = source(body);
    // A query of a grid reads no vectors.
    let count =
        lower(&source, &options(Dialect::Warp)).unwrap_or_else(|error| panic!("{error}")).kernels[0].parameters.len();
    arguments.truncate(count);
    run(&source, &[1], &mut arguments);
    read(&arguments[1])
}

fn source(body: &str) -> String {
    let body: String = body.trim().lines().flat_map(|line| ["    ", line, "\n"]).collect();
    format!("import warp as wp\n\n@wp.kernel\ndef k(id: wp.uint64, out: wp.array(dtype=float)):\n{body}")
}

#[test]
fn tables_are_parameters_after_those_of_the_source() {
    let module = lower(&source("out[0] = wp.mesh_get_point(id, 0)[0]"), &options(Dialect::Warp)).expect("it is valid");
    let names: Vec<_> = module.kernels[0].parameters.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["id", "out", "geometry_ints", "geometry_vectors"]);
}

#[test]
fn the_nearest_point_of_a_mesh_is_found() {
    let found = results(
        MESH,
        "
p = wp.vec3(0.75, 0.875, 0.5)
query = wp.mesh_query_point(id, p, 10.0)
at = wp.mesh_eval_position(id, query.face, query.u, query.v)
out[0] = float(query.face)
out[1] = at[0]
out[2] = at[1]
out[3] = at[2]
out[4] = query.sign
out[5] = float(wp.mesh_query_point_no_sign(id, p, 0.25).result)
out[6] = wp.mesh_query_point_sign_normal(id, wp.vec3(0.25, 0.25, -1.0), 10.0).sign
far = wp.mesh_query_furthest_point_no_sign(id, p, 0.0)
out[7] = wp.mesh_eval_position(id, far.face, far.u, far.v)[0]
",
    );
    assert_eq!(found, [1.0, 0.75, 0.875, 0.0, 1.0, 0.0, -1.0, 0.0]);
}

#[test]
fn a_ray_meets_the_first_face() {
    let found = results(
        MESH,
        "
hit = wp.mesh_query_ray(id, wp.vec3(0.25, 0.125, 2.0), wp.vec3(0.0, 0.0, -1.0), 10.0)
out[0] = float(hit.face)
out[1] = hit.t
out[2] = wp.mesh_eval_position(id, hit.face, hit.u, hit.v)[1]
out[3] = hit.normal[2]
out[4] = wp.sign(hit.sign)
out[5] = float(wp.mesh_query_ray(id, wp.vec3(0.25, 0.125, 2.0), wp.vec3(0.0, 0.0, -1.0), 1.5).result)
out[6] = float(wp.mesh_query_ray_anyhit(id, wp.vec3(0.25, 0.125, -2.0), wp.vec3(0.0, 0.0, 1.0), 10.0))
out[7] = float(wp.mesh_query_ray_count_intersections(id, wp.vec3(0.25, 0.125, -2.0), wp.vec3(0.0, 0.0, -1.0)))
",
    );
    assert_eq!(found, [0.0, 2.0, 0.125, 1.0, 1.0, 0.0, 1.0, 0.0]);
}

#[test]
fn queries_of_boxes_iterate() {
    let found = results(
        MESH,
        "
n = int(0)
for face in wp.mesh_query_aabb(id, wp.vec3(0.5, 0.5, -1.0), wp.vec3(2.0, 2.0, 1.0)):
    out[n] = float(face)
    n += 1
query = wp.bvh_query_aabb(wp.mesh_get_bvh(id), wp.vec3(2.0, 0.0, 0.0), wp.vec3(3.0, 1.0, 1.0))
item = int(7)
out[2] = float(wp.bvh_query_next(query, item))
out[3] = float(item)
ray = wp.bvh_query_ray(wp.mesh_get_bvh(id), wp.vec3(0.5, 0.5, 3.0), wp.vec3(0.0, 0.0, -1.0))
out[4] = float(wp.bvh_query_next(ray, item, 2.0))
out[5] = float(wp.mesh_get_group_root(id, 9))
out[6] = float(wp.mesh_get_group_root(id, 6))
mesh = wp.mesh_get(id)
out[7] = mesh.points[mesh.indices[4]][1] + float(mesh.indices.shape[0] + mesh.velocities.shape[0])
",
    );
    assert_eq!(found, [1.0, 0.0, 0.0, 7.0, 0.0, 1.0, -1.0, 7.0]);
}

#[test]
fn a_hash_grid_yields_the_points_of_cells() {
    let found = results(
        GRID,
        "
n = int(0)
for point in wp.hash_grid_query(id, wp.vec3(0.5, 0.5, 0.5), 0.25):
    out[n] = float(point)
    n += 1
out[n] = 10.0
query = wp.hash_grid_query(id, wp.vec3(-0.5, 0.5, 0.5), 0.25)
point = int(0)
while wp.hash_grid_query_next(query, point):
    out[4] = float(point)
out[5] = float(wp.hash_grid_point_id(id, 1))
",
    );
    assert_eq!(found, [2.0, 0.0, 10.0, -1.0, 1.0, 0.0, -1.0, -1.0]);
}

#[test]
fn handles_that_are_unknown_or_of_another_kind_are_faults() {
    for (id, body) in [
        (UNKNOWN, "out[0] = wp.mesh_get_point(id, 0)[0]"),
        (GRID, "out[0] = wp.mesh_get_point(id, 0)[0]"),
        (MESH, "out[0] = wp.mesh_get_point(id, 6)[0]"),
    ] {
        let [ints, vectors] = tables();
        let mut arguments = [value_of(&[id]), Argument::array(&[0.0_f32; 8]), ints, vectors];
        let fault = whole_fault(&source(body), &options(Dialect::Warp), &[1], &mut arguments);
        assert_eq!(fault.kind, FaultKind::Assertion, "{body}");
        // The call, not what it calls.
        assert_eq!(fault.site.map(|site| site.line), Some(5), "{body}");
    }
}

#[test]
fn loops_take_ranges_and_queries() {
    assert_eq!(refused_body("for i in n:\n    out[i] = 0.0"), ErrorKind::UnsupportedStatement);
}
