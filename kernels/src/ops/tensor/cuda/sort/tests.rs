//! Steps become launches, and their kernels compile.

use accelerd_tensor::{Layout, Location, View};

use super::{
    super::{compile::compiles, launches::Launch},
    *,
};

fn step(dtype: Dtype, shape: [usize; 2], count: usize, is_descending: bool) -> SortStep {
    let view = |location, dtype, shape: &[usize]| View { location, dtype, layout: Layout::contiguous(shape) };
    let output = view(Location::Output(0), Dtype::I64, &[shape[0], count]);
    SortStep { input: view(Location::Input(0), dtype, &shape), is_descending, output }
}

fn prepared(step: &SortStep) -> Launches {
    let sizes = BufferSizes::new(&[1 << 42], &[1 << 42], 0);
    prepare(step, &sizes).unwrap_or_else(|error| panic!("{error}"))
}

/// Templates and blocks of the launches.
fn geometry(dtype: Dtype, shape: [usize; 2], count: usize) -> Vec<(&'static str, u32)> {
    let launches = prepared(&step(dtype, shape, count, false)).launches;
    launches.iter().map(|launch: &Launch| (launch.source.template, launch.grid.x)).collect()
}

#[test]
fn short_rows_share_a_block_and_rows_of_a_tile_have_one() {
    assert_eq!(geometry(Dtype::F32, [1000, 10], 10), [("tensor_sort_tiles", 32)]);
    assert_eq!(geometry(Dtype::F32, [1000, 1], 1), [("tensor_sort_tiles", 4)]);
    assert_eq!(geometry(Dtype::F32, [1000, 2048], 2048), [("tensor_sort_tiles", 1000)]);
    assert!(geometry(Dtype::F32, [0, 7], 7).is_empty() && geometry(Dtype::F32, [7, 9], 0).is_empty());
}

#[test]
fn few_elements_of_long_rows_are_found_by_levels_of_tiles() {
    let levels = geometry(Dtype::F32, [3, 1_000_000], 10);
    // 489 tiles keep 4,890 elements of a row, and 3 tiles keep 30. One block takes these of all rows.
    assert_eq!(levels, [3 * 489, 3 * 3, 1].map(|blocks| ("tensor_sort_tiles", blocks)));
    let launches = prepared(&step(Dtype::F32, [3, 1_000_000], 10, true));
    assert_eq!(launches.workspace_bytes, 2 * 3 * 4890 * 8);
    assert_eq!(prepared(&step(Dtype::F64, [3, 1_000_000], 10, true)).workspace_bytes, 2 * 3 * 4890 * 16);
    let last = &launches.launches[2];
    assert!(last.arguments.contains(&Argument::Address(Address::In(Location::Output(0), 0))));
}

#[test]
fn long_rows_are_sorted_by_digits_as_many_as_the_key_has_bytes() {
    let passes = |dtype, shape: [usize; 2]| {
        let launches = geometry(dtype, shape, shape[1]);
        let per_pass = if launches.iter().any(|(template, _)| *template == "tensor_sort_scan") { 3 } else { 2 };
        (launches.len() / per_pass, per_pass)
    };
    for dtype in Dtype::ALL {
        assert_eq!(passes(dtype, [1, 1_000_000]), (dtype.size(), 3), "{dtype}");
        assert_eq!(passes(dtype, [5000, 4000]), (dtype.size(), 2), "many rows are one part each");
    }
    let blocks = geometry(Dtype::F32, [1, 100_000_000], 1000);
    assert_eq!(blocks[..3], [("tensor_sort_count", 1018), ("tensor_sort_scan", 256), ("tensor_sort_move", 1018)]);
}

#[test]
fn keys_and_indices_alternate_between_two_buffers() {
    let launches = prepared(&step(Dtype::F32, [1, 1_000_000], 1_000_000, false)).launches;
    let moves: Vec<_> = launches.iter().filter(|launch| launch.source.template == "tensor_sort_move").collect();
    for pair in moves.windows(2) {
        assert_eq!(pair[0].arguments[2..4], pair[1].arguments[..2], "a pass reads what the one before wrote");
        assert_ne!(pair[1].arguments[2..4], pair[1].arguments[..2], "and writes elsewhere");
    }
    assert_eq!(prepared(&step(Dtype::U8, [5000, 4096], 4096, false)).workspace_bytes, 5000 * 256 * 4, "one pass");
}

#[test]
fn a_step_that_is_no_sort_is_refused() {
    let sizes = BufferSizes::new(&[1 << 39], &[1 << 39], 0);
    let good = step(Dtype::F32, [4, 8], 8, false);
    let refused = |step: SortStep| matches!(prepare(&step, &sizes), Err(OpError::Invalid(_)));
    assert!(!refused(good.clone()));
    assert!(refused(step(Dtype::F32, [4, 8], 9, false)), "more results than elements");
    assert!(refused(step(Dtype::F32, [1, SortStep::MAX_COLUMNS + 1], 1, false)), "indices of 32 bits");
    assert!(refused(SortStep { output: View { dtype: Dtype::I32, ..good.output.clone() }, ..good.clone() }));
    let columns = View { layout: Layout::contiguous(&[8, 4]).permuted(&[1, 0]), ..good.input.clone() };
    assert!(refused(SortStep { input: columns, ..good }));
}

#[test]
fn every_type_compiles_for_all_ways_to_sort() {
    let mut sources = vec![];
    for (nth, dtype) in Dtype::ALL.into_iter().enumerate() {
        let rows = [([9, 7], 7), ([9, 2048], 3), ([1, 50_000], 9), ([1, 5000], 5000), ([3000, 5000], 5000)];
        for (index, (shape, count)) in rows.into_iter().enumerate().skip(nth % 3) {
            let launches = prepared(&step(dtype, shape, count, (nth + index) % 2 == 0));
            sources.extend(launches.launches.into_iter().map(|launch| launch.source));
        }
    }
    sources.sort_by(|a, b| a.text.cmp(&b.text));
    sources.dedup();
    compiles(&sources);
}
