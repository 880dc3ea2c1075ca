//! Products of matrices.

use accelerd_tensor::{Accumulate, MatMulStep};

use super::*;

/// The layout of matrices, row-major or transposed, with rows `gap` elements longer than needed, and its buffer's shape.
fn matrices(batch: usize, rows: usize, columns: usize, is_transposed: bool, gap: usize) -> (Vec<usize>, Layout) {
    let (outer, inner) = if is_transposed { (columns, rows) } else { (rows, columns) };
    let buffer = vec![batch, outer, inner + gap];
    let layout = Layout::contiguous(&buffer).sliced(2, 0, inner, 1);
    (buffer, if is_transposed { layout.permuted(&[0, 2, 1]) } else { layout })
}

struct Case {
    dtype: Dtype,
    accumulate: Accumulate,
    /// Batch, rows, common dimension, columns.
    shape: [usize; 4],
    transposed: [bool; 2],
    gap: usize,
    is_b_shared: bool,
    has_bias: bool,
    epilogue: Option<Function>,
}

fn plan(case: &Case) -> Plan {
    let [batch, rows, inner, columns] = case.shape;
    let dtype = case.dtype;
    let (a_buffer, a) = matrices(batch, rows, inner, case.transposed[0], case.gap);
    let b_batch = if case.is_b_shared { 1 } else { batch };
    let (b_buffer, b) = matrices(b_batch, inner, columns, case.transposed[1], case.gap);
    let b = b.broadcast(&[batch, inner, columns]).expect("one matrix repeats");
    let mut inputs = vec![tensor(dtype, &a_buffer), tensor(dtype, &b_buffer)];
    let bias = case.has_bias.then(|| {
        inputs.push(tensor(dtype, &[columns]));
        whole(Location::Input(2), dtype, &[columns])
    });
    let step = MatMulStep {
        a: view(Location::Input(0), dtype, a),
        b: view(Location::Input(1), dtype, b),
        bias,
        accumulate: case.accumulate,
        epilogue: case.epilogue.clone(),
        output: whole(Location::Output(0), dtype, &[batch, rows, columns]),
    };
    one_step(inputs, vec![tensor(dtype, &[batch, rows, columns])], Step::MatMul(step))
}

fn accumulate(dtype: Dtype) -> Accumulate {
    if dtype == Dtype::F64 {
        Accumulate::F64
    } else if dtype.is_float() {
        Accumulate::F32
    } else {
        Accumulate::Wrapping
    }
}

/// `max(x, 0) + index` in a type of numbers.
fn relu(dtype: Dtype) -> Function {
    let mut builder = Builder::new(&[dtype]);
    let param = builder.param(0);
    let value = builder.cast(param, dtype.compute());
    let zero = builder.number(dtype.compute(), 0.0);
    let value = builder.binary(BinaryOp::Max, value, zero).expect("of numbers");
    let index = builder.index();
    let index = builder.cast(index, dtype.compute());
    let value = builder.binary(BinaryOp::Add, value, index).expect("of numbers");
    let result = builder.cast(value, dtype);
    builder.finish(&[result])
}

fn check_case(case: &Case) {
    let plan = plan(case);
    let data: Vec<_> =
        (20..).zip(&plan.inputs).map(|(seed, of)| numbers(case.dtype, of.elements(), seed, true)).collect();
    // The mean square of the numbers is 25 / 3, and that of the norms of rows and columns as many times the common dimension.
    let norms = 25.0 / 3.0 * case.shape[2].max(1) as f64;
    let precision = if case.dtype == Dtype::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    check(&plan, &data, 1.0, 4.0 * precision * norms);
}

#[test]
fn products_of_each_type_agree_with_the_oracle() {
    for dtype in Dtype::ALL.into_iter().filter(|dtype| *dtype != Dtype::Bool) {
        for (nth, shape) in [
            [1, 1, 1, 1],
            [2, 3, 5, 7],
            [1, 17, 300, 33],
            [3, 16, 16, 16],
            [1, 65, 7, 401],
            [2, 5, 0, 3],
            [0, 5, 4, 3],
            [2, 70, 40, 1],
        ]
        .into_iter()
        .enumerate()
        {
            for transposed in [[false, false], [true, false], [false, true], [true, true]] {
                check_case(&Case {
                    dtype,
                    accumulate: accumulate(dtype),
                    shape,
                    transposed,
                    gap: nth % 3,
                    is_b_shared: nth % 4 == 3,
                    has_bias: nth % 2 == 1,
                    epilogue: (nth % 3 == 1).then(|| relu(dtype)),
                });
            }
        }
    }
}

#[test]
fn long_products_are_cut_into_tiles() {
    for (dtype, shape, transposed, is_b_shared) in [
        (Dtype::F32, [1, 66, 520, 390], [false, false], false),
        (Dtype::F32, [1, 17, 1030, 130], [true, true], false),
        (Dtype::F32, [2, 17, 530, 390], [false, true], true),
        (Dtype::F32, [1, 2, 3000, 300], [false, false], false),
        (Dtype::F16, [2, 17, 520, 390], [false, false], false),
        (Dtype::F64, [1, 66, 260, 270], [false, true], false),
        (Dtype::I32, [1, 66, 260, 270], [true, false], false),
    ] {
        check_case(&Case {
            dtype,
            accumulate: accumulate(dtype),
            shape,
            transposed,
            gap: 1,
            is_b_shared,
            has_bias: true,
            epilogue: Some(relu(dtype)),
        });
    }
}

/// Each shape takes another path: columns that are packed by the tasks that multiply them, a matrix of the batch for each task, blocks of
/// rows by packed strips, and a vector.
#[test]
fn products_of_each_size_agree_with_the_oracle() {
    for (shape, is_b_shared) in [
        ([1, 128, 128, 128], false),
        ([1, 129, 1025, 200], false),
        ([2, 40, 513, 97], true),
        ([13, 33, 100, 129], false),
        ([1, 900, 700, 700], false),
        ([1, 300, 1030, 1], false),
        ([1, 35, 4100, 12], false),
    ] {
        for gap in [0, 3] {
            for has_bias in [false, true] {
                check_case(&Case {
                    dtype: Dtype::F32,
                    accumulate: Accumulate::F32,
                    shape,
                    transposed: [false, has_bias && gap == 0],
                    gap,
                    is_b_shared,
                    has_bias,
                    epilogue: None,
                });
            }
        }
    }
}

#[test]
fn views_and_functions_of_other_types_are_refused() {
    let case = Case {
        dtype: Dtype::F32,
        accumulate: Accumulate::F32,
        shape: [1, 20, 20, 20],
        transposed: [false; 2],
        gap: 0,
        is_b_shared: false,
        has_bias: false,
        epilogue: None,
    };
    let input = numbers(Dtype::F32, 400, 1, true);
    let refuse = |change: &dyn Fn(&mut MatMulStep)| {
        let mut plan = plan(&case);
        let Step::MatMul(step) = &mut plan.steps[0] else { panic!("a product") };
        change(step);
        let refused = execute(&plan, &[&input, &input], &worker(1)).err();
        assert!(matches!(refused, Some(OpError::Invalid(_))), "{refused:?} of {:?}", plan.steps[0]);
    };
    refuse(&|step| step.accumulate = Accumulate::Wrapping);
    refuse(&|step| step.b.dtype = Dtype::I32);
    refuse(&|step| step.epilogue = Some(relu(Dtype::F64)));
    refuse(&|step| step.b.layout.shape = vec![1, 21, 20]);
    refuse(&|step| step.a.layout.shape = vec![20, 20]);
    refuse(&|step| step.a.layout.strides[1] = isize::MIN);
    refuse(&|step| step.output.location = Location::Input(1));
}

#[test]
fn products_of_more_terms_than_memory_pass_preemption_points() {
    const LEN: usize = 1 << 42;
    let repeated = |shape: &[usize]| Layout::contiguous(&[]).broadcast(shape).expect("a scalar repeats");
    for (dtype, rows, columns) in [(Dtype::F32, 1, 1), (Dtype::F32, 32, 1), (Dtype::F32, 40, 500), (Dtype::I32, 3, 2)] {
        let step = MatMulStep {
            a: view(Location::Input(0), dtype, repeated(&[1, rows, LEN])),
            b: view(Location::Input(0), dtype, repeated(&[1, LEN, columns])),
            bias: None,
            accumulate: accumulate(dtype),
            epilogue: None,
            output: whole(Location::Output(0), dtype, &[1, rows, columns]),
        };
        let plan = one_step(vec![tensor(dtype, &[])], vec![tensor(dtype, &[1, rows, columns])], Step::MatMul(step));
        let ended = execute(&plan, &[&vec![0; dtype.size()]], &abandoned(3)).err();
        assert_eq!(ended, Some(OpError::Cancelled), "{dtype}: {rows} rows, {columns} columns");
    }
}

#[test]
fn long_products_of_repeated_elements_are_exact_in_slices() {
    let len = 9_000_003;
    let repeated = |shape: &[usize]| Layout::contiguous(&[]).broadcast(shape).expect("a scalar repeats");
    let step = MatMulStep {
        a: view(Location::Input(0), Dtype::I64, repeated(&[1, 3, len])),
        b: view(Location::Input(1), Dtype::I64, repeated(&[1, len, 20])),
        bias: None,
        accumulate: accumulate(Dtype::I64),
        epilogue: None,
        output: whole(Location::Output(0), Dtype::I64, &[1, 3, 20]),
    };
    let scalar = tensor(Dtype::I64, &[]);
    let plan = one_step(vec![scalar.clone(), scalar], vec![tensor(Dtype::I64, &[1, 3, 20])], Step::MatMul(step));
    let inputs = [3_i64.to_le_bytes(), 7_i64.to_le_bytes()];
    let inputs: Vec<&[u8]> = inputs.iter().map(<[u8; 8]>::as_slice).collect();
    let got = execute(&plan, &inputs, &worker(2)).expect("a consistent plan");
    let expected = (21 * i64::try_from(len).expect("a length")).to_le_bytes();
    assert!(got[0].as_ref().chunks_exact(8).all(|bytes| bytes == expected));
}
