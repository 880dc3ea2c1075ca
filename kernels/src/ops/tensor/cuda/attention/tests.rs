//! Which kernel computes attention, and that all of them compile.

use accelerd_tensor::{Accumulate, Location};

use super::{
    super::compile::compiles,
    variant::{Mma, Vector},
    *,
};

const FLOATS: [Dtype; 4] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];

/// Attention of `[batch, heads, queries, dim]` to as many heads of `keys` rows, with the mask of a type if there is one.
fn step(dtype: Dtype, [batch, heads, queries, dim]: [usize; 4], keys: usize, mask: Option<Dtype>) -> AttentionStep {
    let view = |location, dtype, shape: &[usize]| View { location, dtype, layout: Layout::contiguous(shape) };
    AttentionStep {
        query: view(Location::Input(0), dtype, &[batch, heads, queries, dim]),
        key: view(Location::Input(1), dtype, &[batch, heads, keys, dim]),
        value: view(Location::Input(2), dtype, &[batch, heads, keys, dim]),
        mask: mask.map(|mask| view(Location::Input(3), mask, &[batch, heads, queries, keys])),
        lengths: None,
        is_causal: mask.is_none(),
        scale_bits: 0.125_f64.to_bits(),
        accumulate: Accumulate::F32,
        output: view(Location::Output(0), dtype, &[batch, heads, queries, dim]),
    }
}

/// Without tensor cores, with those of `mma.sync`, and with those of `wgmma`.
const TURING: (u32, u32) = (7, 5);
const AMPERE: (u32, u32) = (8, 0);
const HOPPER: (u32, u32) = (9, 0);

fn launches(step: &AttentionStep, capability: (u32, u32)) -> Launches {
    let sizes = BufferSizes::new(&[1 << 40; 5], &[1 << 40], 0);
    prepare(step, &sizes, capability).unwrap_or_else(|error| panic!("{error}"))
}

fn problem(dtype: Dtype, [batch, heads, queries, keys]: [usize; 4], dim: usize) -> Problem {
    let vector = Vector { start: 8, read: 4 };
    Problem {
        dtype,
        batch,
        heads,
        kv_heads: heads,
        queries,
        keys,
        dim,
        value_dim: dim,
        is_causal: false,
        has_lengths: false,
        fits_maps: true,
        stride: dim,
        vector,
    }
}

#[test]
fn tensor_cores_compute_aligned_16_bit_types() {
    let template = |dtype, dim, capability| {
        launches(&step(dtype, [2, 3, 5, dim], 7, None), capability).launches[0].source.template
    };
    assert_eq!(template(Dtype::Bf16, 64, AMPERE), "tensor_attention_mma");
    assert_eq!(template(Dtype::F16, 256, AMPERE), "tensor_attention_mma");
    assert_eq!(template(Dtype::F16, 64, TURING), "tensor_attention_simt");
    assert_eq!(template(Dtype::F16, 63, AMPERE), "tensor_attention_simt", "rows that are not aligned");
    assert_eq!(template(Dtype::F32, 64, AMPERE), "tensor_attention_simt");
    assert_eq!(template(Dtype::F32, 300, AMPERE), "tensor_attention_rows");
    assert_eq!(template(Dtype::F64, 64, AMPERE), "tensor_attention_rows");
}

#[test]
fn tiles_are_large_where_blocks_fill_a_device_and_keys_are_split_where_they_do_not() {
    let mma = |shape, dim| match Variant::choose(&problem(Dtype::Bf16, shape, dim), AMPERE) {
        Variant::Mma(mma) => (mma.tiles, mma.parts, mma.part_keys),
        other @ (Variant::Sm90 { .. } | Variant::Simt { .. } | Variant::Rows) => panic!("{other:?}"),
    };
    assert_eq!(mma([4, 16, 4096, 4096], 128), (2, 1, 4096));
    assert_eq!(mma([64, 12, 512, 512], 64), (2, 1, 512));
    assert_eq!(mma([4, 8, 512, 512], 64), (1, 1, 512));
    assert_eq!(mma([4, 16, 4096, 4096], 256), (1, 1, 4096));
    assert_eq!(mma([1, 32, 1, 4096], 128), (1, 8, 512));
    assert_eq!(mma([1, 1, 1, 1 << 20], 128), (1, 32, 1 << 15));
    assert_eq!(mma([1, 8, 1, 100], 128), (1, 1, 128), "few keys");
    assert_eq!(mma([1, 8, 1, 0], 128), (1, 1, 64), "no keys");
    let decode = launches(&step(Dtype::F16, [1, 32, 1, 120], 4096, Some(Dtype::Bool)), AMPERE);
    let geometry: Vec<_> =
        decode.launches.iter().map(|launch| (launch.source.template, launch.grid.x, launch.shared_bytes)).collect();
    assert_eq!(geometry, [("tensor_attention_mma", 256, 3 * 64 * 128 * 2), ("tensor_attention_combine", 8, 0)]);
    assert_eq!(decode.workspace_bytes, 8 * 32 * (128 + 2) * 4);
}

#[test]
fn hopper_loads_whole_tiles_of_narrow_rows_that_a_tensor_map_describes() {
    let variant = |problem: &Problem| Variant::choose(problem, HOPPER);
    let large = problem(Dtype::Bf16, [4, 16, 4096, 4096], 128);
    assert_eq!(variant(&large), Variant::Sm90 { dim: 128 });
    assert_eq!(variant(&Problem { dim: 40, value_dim: 64, ..large }), Variant::Sm90 { dim: 64 });
    assert_eq!(variant(&Problem { dim: 40, value_dim: 72, ..large }), Variant::Sm90 { dim: 128 });
    for other in [
        Problem { queries: 127, ..large },
        Problem { keys: 127, ..large },
        Problem { value_dim: 136, ..large },
        Problem { dim: 32, value_dim: 32, ..large },
        Problem { has_lengths: true, ..large },
        Problem { fits_maps: false, ..large },
        Problem { batch: 1, heads: 1, queries: 128, ..large },
    ] {
        assert!(matches!(variant(&other), Variant::Mma(_)), "{other:?}");
    }
    assert!(matches!(Variant::choose(&large, (10, 0)), Variant::Mma(_)), "later GPUs lack wgmma");

    let mut repeated = step(Dtype::F16, [2, 8, 1024, 64], 1024, None);
    assert_eq!(launches(&repeated, HOPPER).launches[0].source.template, "tensor_attention_sm90");
    repeated.key.layout.strides[1] = 0;
    assert_eq!(launches(&repeated, HOPPER).launches[0].source.template, "tensor_attention_mma");
}

#[test]
fn tensor_maps_follow_the_strides_of_their_views() {
    // Rows of [batch, row, head, column], as projections of all heads give them; one batch.
    let mut step = step(Dtype::Bf16, [1, 16, 2048, 64], 2048, None);
    step.query.layout = Layout::contiguous(&[1, 2048, 16, 64]).permuted(&[0, 2, 1, 3]);
    let launch = launches(&step, HOPPER).launches.remove(0);
    let [query, key, _] = &launch.maps[..] else { panic!("{:?}", launch.maps) };
    assert_eq!((&query.map.extents[..], &query.map.strides[..]), (&[64, 2048, 16, 1][..], &[2048, 128, 16][..]));
    assert_eq!(key.map.strides, [128, 2048 * 128, 16]);
    assert_eq!(key.at, Pointer::View(Address::In(Location::Input(1), 0)));
    assert_eq!(launch.waves, Some(1));
}

#[test]
fn tiles_fit_the_shared_memory_of_their_devices() {
    for dim in 1..=256 {
        for dtype in [Dtype::F16, Dtype::F32] {
            let mut problem = problem(dtype, [64, 64, 4096, 4096], dim);
            for value_dim in [1, 64, 128, 256] {
                problem.value_dim = value_dim;
                let shared = |capability| Variant::choose(&problem, capability).shared_bytes();
                assert!(shared(AMPERE) <= 99 << 10 && shared(TURING) <= 64 << 10, "{problem:?}");
            }
        }
    }
}

#[test]
fn vectors_need_alignment_of_every_row() {
    let vector = |strides: &[isize], offsets: &[usize], lengths| {
        let vector = variant::vector(strides.iter().copied(), offsets, lengths);
        (vector.start, vector.read)
    };
    assert_eq!(vector(&[64, 1024], &[0, 8], [64, 64]), (8, 4));
    assert_eq!(vector(&[64, 1024], &[0, 8], [63, 64]), (8, 1), "padded rows");
    assert_eq!(vector(&[66, -1024], &[0], [66, 2]), (2, 2));
    assert_eq!(vector(&[64], &[4, 3], [64, 64]), (1, 1));
    assert_eq!(vector(&[0, 0], &[0], [4, 4]), (8, 4));
}

#[test]
fn steps_without_results_launch_nothing_and_those_without_keys_write_zeros() {
    assert!(launches(&step(Dtype::F16, [2, 3, 0, 64], 7, None), AMPERE).launches.is_empty());
    assert!(launches(&step(Dtype::F32, [0, 3, 5, 64], 7, None), AMPERE).launches.is_empty());
    assert_eq!(launches(&step(Dtype::F16, [2, 3, 5, 64], 0, None), AMPERE).launches.len(), 1);
}

#[test]
fn a_step_that_does_not_fit_its_views_is_an_error() {
    let wrongs: [fn(&mut AttentionStep); 10] = [
        |step| step.query.layout = Layout::contiguous(&[6, 5, 64]),
        |step| step.key.layout = Layout::contiguous(&[2, 2, 7, 64]),
        |step| step.value.layout = Layout::contiguous(&[2, 3, 6, 64]),
        |step| step.value.dtype = Dtype::Bf16,
        |step| step.key.layout.strides[3] = 2,
        |step| step.query.layout.offset = usize::MAX,
        |step| step.mask.iter_mut().for_each(|mask| mask.dtype = Dtype::U8),
        |step| step.lengths = step.mask.clone(),
        |step| step.output.layout.strides = vec![960, 64, 192, 1],
        |step| step.output.location = Location::Input(0),
    ];
    let sizes = BufferSizes::new(&[1 << 30; 5], &[1 << 30], 0);
    let good = step(Dtype::F16, [2, 3, 5, 64], 7, Some(Dtype::Bool));
    assert!(prepare(&good, &sizes, AMPERE).is_ok());
    for (nth, wrong) in wrongs.iter().enumerate() {
        let mut step = good.clone();
        wrong(&mut step);
        assert!(matches!(prepare(&step, &sizes, AMPERE), Err(OpError::Invalid(_))), "{nth}");
    }
}

#[test]
fn every_variant_compiles() {
    let lengths = View { location: Location::Input(4), dtype: Dtype::I32, layout: Layout::contiguous(&[2]) };
    let mut steps = vec![];
    for (nth, dtype) in FLOATS.into_iter().enumerate() {
        for (index, dim) in [32, 64, 96, 128, 200, 256, 300].into_iter().enumerate() {
            let mask = [None, Some(Dtype::Bool), Some(Dtype::F32), Some(dtype)][(nth + index) % 4];
            let lengths = (index % 2 == 0).then(|| lengths.clone());
            for (queries, keys) in [(2, 5000), (100 * 128, 128)] {
                steps.push(AttentionStep { lengths: lengths.clone(), ..step(dtype, [2, 3, queries, dim], keys, mask) });
            }
        }
    }
    let mut sources = vec![];
    for step in &steps {
        for capability in [TURING, AMPERE, HOPPER] {
            let all = launches(step, capability).launches.into_iter().map(|launch| launch.source);
            sources.extend(all.filter(|source| !sources.contains(source)).collect::<Vec<_>>());
        }
    }
    for template in ["tensor_attention_combine", "tensor_attention_sm90"] {
        assert!(sources.iter().any(|source| source.template == template), "{template}");
    }
    compiles(&sources);
}

#[test]
fn values_of_different_width_than_keys_have_a_tile_of_their_own() {
    let wide = Problem { value_dim: 160, ..problem(Dtype::F16, [64, 12, 512, 512], 40) };
    let Variant::Mma(mma) = Variant::choose(&wide, AMPERE) else { panic!("tensor cores") };
    assert_eq!(mma, Mma { dim: 64, value_dim: 160, tiles: 1, parts: 1, part_keys: 512 });
}
