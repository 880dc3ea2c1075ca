//! Kernels of Warp's dialect with native snippets, tiles and queries of geometry compile for GPUs.
//!
//! Needs NVRTC, but no GPU: set `ACCELERD_NVRTC_PATH` to the folder of `libnvrtc.so`, or install the CUDA toolkit.

use std::{collections::BTreeMap, env, ops::ControlFlow};

use accelerd_ir::kernel::cuda::prelude;
use accelerd_kernels::{
    cuda::{Arch, UserCompiler},
    ops::translate::{Dialect, Request, Targets},
};
use accelerd_translate::translate;

const SOURCE: &str = r#"import warp as wp

@wp.func_native("""
    unsigned int bits = __float_as_uint(x);
    return bits ^ (bits & 0x80000000u ? 0xffffffffu : 0x80000000u);
""")
def flipped(x: float) -> wp.uint32: ...

@wp.func_native("""
    int lowest = mask ? __ffsll(mask) - 1 : -1;
    for (int i = 0; i < n; ++i) { if (lowest < i) { lowest += 2; } }
    atomicAdd(&out.data[0], (float)lowest);
    return lowest;
""")
def lowest(mask: wp.uint64, n: int, out: wp.array(dtype=float)) -> int: ...

@wp.kernel
def snippets(x: wp.array(dtype=float), keys: wp.array(dtype=wp.uint32), out: wp.array(dtype=float)):
    i = wp.tid()
    keys[i] = flipped(x[i])
    out[i] = float(lowest(wp.uint64(keys[i]), i, out))

@wp.kernel
def tiles(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    row = wp.tile_load(x[i], shape=16, offset=0)
    scaled = wp.tile_map(wp.sin, row) * row
    wp.tile_store(out[i], wp.tile_scan_inclusive(scaled), offset=0)
    out[i, 0] = wp.tile_sum(scaled)[0]

@wp.kernel
def meshes(mesh: wp.uint64, p: wp.array(dtype=wp.vec3), face: wp.array(dtype=int), sign: wp.array(dtype=float)):
    i = wp.tid()
    point = wp.mesh_query_point_sign_normal(mesh, p[i], 10.0)
    hit = wp.mesh_query_ray(mesh, p[i], wp.vec3(0.0, 0.0, 1.0), 10.0)
    face[i] = wp.where(hit.result, hit.face, point.face)
    sign[i] = point.sign
    for other in wp.mesh_query_aabb(mesh, p[i], p[i]):
        sign[i] += float(other)

@wp.kernel
def volumes(volume: wp.uint64, grid: wp.uint64, p: wp.array(dtype=wp.vec3), value: wp.array(dtype=float)):
    i = wp.tid()
    value[i] = wp.volume_sample_f(volume, wp.volume_world_to_index(volume, p[i]), 1)
    for near in wp.hash_grid_query(grid, p[i], 0.5):
        value[i] += float(near)
"#;

#[test]
fn snippets_tiles_and_queries_compile() {
    let folder = env::var_os("ACCELERD_NVRTC_PATH").expect("ACCELERD_NVRTC_PATH must name the folder of libnvrtc");
    let compiler = UserCompiler::find(&[folder.into()], false).expect("NVRTC is there");
    let request = Request {
        source: SOURCE.to_owned(),
        dialect: Some(Dialect::Warp),
        constants: BTreeMap::new(),
        names: vec![],
        targets: Targets { cuda: false, wasm: false, device: true },
        max_bytes: 1 << 24,
    };
    let translation = translate(&request, || ControlFlow::Continue(())).expect("it is small");
    assert!(translation.diagnostics.is_empty(), "{:?}", translation.diagnostics);
    assert_eq!(translation.kernels.len(), 4);
    for kernel in translation.kernels {
        let unit = [prelude(), kernel.device.expect("it is requested").source].join("\n");
        let compiled =
            compiler.compile(&unit, Arch::SUPPORTED[0]).unwrap_or_else(|log| panic!("{}: {log}", kernel.name));
        assert!(compiled.resources.is_some(), "{}", kernel.name);
    }
}
