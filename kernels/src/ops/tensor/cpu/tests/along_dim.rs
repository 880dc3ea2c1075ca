//! Elements by index, scans and sorts.

use std::cmp::Ordering;

use accelerd_tensor::{IndexOp, IndexStep, ScanKind, ScanStep, SortStep};

use super::*;

/// Rows along the first dimension of `from`, by indices of the layout shape of the output.
fn index_step(op: IndexOp, dtype: Dtype, index: Dtype, from: [usize; 2], to: [usize; 2]) -> IndexStep {
    let strides = if op == IndexOp::Gather { vec![0, 1, from[1].cast_signed()] } else { vec![0, 0, 1] };
    let extent = if op == IndexOp::Gather { from[0] } else { from[0] * from[1] };
    let input = Layout { shape: vec![to[0], to[1], extent], strides, offset: 0 };
    IndexStep {
        op,
        node: 3,
        input: view(Location::Input(0), dtype, input),
        index: whole(Location::Input(1), index, &to),
        output: whole(Location::Output(0), dtype, &to),
    }
}

fn index_plan(step: IndexStep, from: &[usize]) -> Plan {
    let inputs = vec![tensor(step.input.dtype, from), tensor(step.index.dtype, &step.index.layout.shape)];
    let outputs = vec![tensor(step.output.dtype, &step.output.layout.shape)];
    one_step(inputs, outputs, Step::Index(step))
}

fn indices(dtype: Dtype, values: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let bytes = |value: i64| value.to_le_bytes().into_iter().take(dtype.size()).collect::<Vec<_>>();
    values.into_iter().flat_map(bytes).collect()
}

#[test]
fn elements_by_index_agree_with_the_oracle() {
    for dtype in Dtype::ALL {
        for (from, to) in [([9, 5], [4, 5]), ([1000, 130], [700, 130]), ([3, 1], [50_000, 1]), ([4, 7], [0, 7])] {
            for (op, number) in [(IndexOp::Gather, Dtype::I64), (IndexOp::TakeAlongDim, Dtype::I32)] {
                let step = index_step(op, dtype, number, from, to);
                let extent = i64::try_from(step.input.layout.shape[2]).expect("small");
                let least = if op.wraps() { -extent } else { 0 };
                let count = i64::try_from(to[0] * to[1]).expect("small");
                let chosen = (0..count).map(|nth| least + nth * 7919 % (extent - least));
                let input = numbers(dtype, from[0] * from[1], 3, false);
                check(&index_plan(step, &from), &[input, indices(number, chosen)], 0.0, 0.0);
            }
        }
    }
}

#[test]
fn rows_with_one_index_agree_with_the_oracle() {
    for columns in [1, 3, 64] {
        let mut step = index_step(IndexOp::Gather, Dtype::F32, Dtype::I32, [11, columns], [3000, columns]);
        step.index.layout = Layout { shape: vec![3000, columns], strides: vec![1, 0], offset: 0 };
        let mut plan = index_plan(step, &[11, columns]);
        plan.inputs[1].shape = vec![3000];
        let input = numbers(Dtype::F32, 11 * columns, 4, false);
        check(&plan, &[input, indices(Dtype::I32, (0..3000).map(|nth| nth * 7 % 11))], 0.0, 0.0);
    }
}

#[test]
fn an_index_out_of_range_is_an_error_that_names_the_first() {
    for (op, bad, least) in [(IndexOp::Gather, -1, "0"), (IndexOp::TakeAlongDim, -46, "-45")] {
        let extent = if op == IndexOp::Gather { 9 } else { 45 };
        for bad in [bad, extent, i64::MAX, i64::MIN] {
            let step = index_step(op, Dtype::F32, Dtype::I64, [9, 5], [2000, 5]);
            let plan = index_plan(step, &[9, 5]);
            let chosen = indices(
                Dtype::I64,
                (0..10_000).map(|nth: i32| match nth.cmp(&9_000) {
                    Ordering::Less => 0,
                    Ordering::Equal => bad,
                    Ordering::Greater => 99,
                }),
            );
            let inputs = [numbers(Dtype::F32, 45, 5, true), chosen];
            let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let error = execute(&plan, &inputs, &worker(3)).err().expect("an error");
            let reason =
                format!("{}: expected indices of at least {least} and less than {extent}, got {bad}", op.name());
            assert_eq!(error, OpError::IndexOutOfRange { node: 3, input: 1, reason });
        }
    }
    let empty = index_plan(index_step(IndexOp::Gather, Dtype::F32, Dtype::I64, [0, 5], [1, 5]), &[0, 5]);
    assert!(execute(&empty, &[&[], &[0; 40]], &worker(1)).is_err(), "nothing can be chosen of no row");
}

#[test]
fn scans_agree_with_the_oracle() {
    for dtype in Dtype::ALL {
        for shape in [
            [1, 1, 1],
            [3, 7, 1],
            [70, 5000, 1],
            [2, 300, 5],
            [5, 33, 300],
            [0, 3, 1],
            [3, 0, 2],
            [1, 100_001, 1],
            [1, 3000, 40],
        ] {
            let to = if dtype.is_float() { dtype } else { Dtype::I64 };
            for kind in [ScanKind::Sum, ScanKind::Prod, ScanKind::Min, ScanKind::Max] {
                let is_extreme = matches!(kind, ScanKind::Min | ScanKind::Max);
                let to = if is_extreme { dtype } else { to };
                let step = ScanStep {
                    input: whole(Location::Input(0), dtype, &shape),
                    kind,
                    accumulate: if to == Dtype::Bool { Dtype::U8 } else { to.compute() },
                    output: whole(Location::Output(0), to, &shape),
                };
                let plan = one_step(vec![tensor(dtype, &shape)], vec![tensor(to, &shape)], Step::Scan(step));
                let input = numbers(dtype, shape.iter().product(), 8, kind == ScanKind::Sum && dtype.is_float());
                check(&plan, &[input], 2.0, if dtype == Dtype::F64 { 1e-9 } else { 1e-6 });
            }
        }
    }
}

#[test]
fn sums_of_negative_zeros_are_negative() {
    for shape in [[1, 5, 1], [3, 7, 4], [1, 100_001, 1]] {
        for dtype in [Dtype::F16, Dtype::F32, Dtype::F64] {
            let step = ScanStep {
                input: whole(Location::Input(0), dtype, &shape),
                kind: ScanKind::Sum,
                accumulate: dtype.compute(),
                output: whole(Location::Output(0), dtype, &shape),
            };
            let plan = one_step(vec![tensor(dtype, &shape)], vec![tensor(dtype, &shape)], Step::Scan(step));
            let mut negative_zero = vec![0; dtype.size()];
            negative_zero[dtype.size() - 1] = 0x80;
            let input = negative_zero.repeat(shape.iter().product());
            let got = execute(&plan, &[&input], &worker(3)).expect("a consistent plan");
            assert!(got[0].as_ref() == input, "{dtype} {shape:?}");
            assert!(oracle::execute(&plan, &[&input])[0] == input, "the oracle of {dtype} {shape:?}");
        }
    }
}

#[test]
fn sorts_agree_with_the_oracle() {
    for dtype in Dtype::ALL {
        for (shape, count) in [
            ([1, 1], 1),
            ([3, 7], 7),
            ([4, 100], 9),
            ([0, 5], 5),
            ([5, 0], 0),
            ([6, 8], 0),
            ([200, 65], 65),
            ([1, 150_001], 150_001),
            ([1, 150_001], 10),
        ] {
            for is_descending in [false, true] {
                let step = SortStep {
                    input: whole(Location::Input(0), dtype, &shape),
                    is_descending,
                    output: whole(Location::Output(0), Dtype::I64, &[shape[0], count]),
                };
                let outputs = vec![tensor(Dtype::I64, &[shape[0], count])];
                let plan = one_step(vec![tensor(dtype, &shape)], outputs, Step::Sort(step));
                check(&plan, &[numbers(dtype, shape[0] * shape[1], 9, false)], 0.0, 0.0);
            }
        }
    }
}

#[test]
fn nan_is_the_greatest_and_equal_numbers_keep_their_order() {
    let values = [f32::NAN, 0.0, -0.0, f32::INFINITY, -f32::NAN, f32::NEG_INFINITY, 0.0, -1.0];
    let input: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
    for (is_descending, expected) in [(false, [5, 7, 1, 2, 6, 3, 0, 4]), (true, [0, 4, 3, 1, 2, 6, 7, 5])] {
        let step = SortStep {
            input: whole(Location::Input(0), Dtype::F32, &[1, 8]),
            is_descending,
            output: whole(Location::Output(0), Dtype::I64, &[1, 8]),
        };
        let plan = one_step(vec![tensor(Dtype::F32, &[1, 8])], vec![tensor(Dtype::I64, &[1, 8])], Step::Sort(step));
        let got = execute(&plan, &[&input], &worker(1)).expect("a consistent plan");
        assert_eq!(got[0].as_ref(), indices(Dtype::I64, expected));
    }
}

#[test]
fn memory_beside_the_plan_grows_with_the_longest_rows() {
    let sort = |columns: usize| {
        let input = tensor(Dtype::F32, &[1, columns]);
        let output = tensor(Dtype::I64, &[1, columns]);
        let step = SortStep {
            input: whole(Location::Input(0), Dtype::F32, &[1, columns]),
            is_descending: false,
            output: whole(Location::Output(0), Dtype::I64, &[1, columns]),
        };
        one_step(vec![input], vec![output], Step::Sort(step))
    };
    let [short, long] = [1 << 10, 1 << 24].map(|columns| scratch_bytes(&sort(columns)));
    assert!(short < 1 << 20, "{short} bytes");
    assert!(long >= (2 * 8) << 24, "{long} bytes: an index and a key of each element, twice");
    let mut several = sort(1 << 10);
    several.steps.extend(sort(1 << 24).steps);
    assert_eq!(scratch_bytes(&several), long, "one step runs at a time");
}
