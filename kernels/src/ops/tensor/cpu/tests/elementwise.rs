//! Elementwise steps.

use super::*;

/// Results of all functions for one pair of inputs.
fn map_plan(dtypes: &[Dtype], shape: &[usize], function: Function) -> Plan {
    let of = |dtype: &Dtype| tensor(*dtype, shape);
    let results: Vec<Dtype> = function.results().iter().map(|result| function.dtype(*result)).collect();
    let views = |dtypes: &[Dtype], location: fn(usize) -> Location| {
        dtypes.iter().enumerate().map(|(nth, dtype)| whole(location(nth), *dtype, shape)).collect::<Vec<_>>()
    };
    let step = MapStep {
        shape: shape.to_vec(),
        inputs: views(dtypes, Location::Input),
        outputs: views(&results, Location::Output),
        function,
    };
    one_step(dtypes.iter().map(of).collect(), results.iter().map(of).collect(), Step::Map(step))
}

#[test]
fn each_operation_of_each_type_agrees_with_the_interpreter() {
    for dtype in Dtype::ALL {
        for count in [1, 37, 1500] {
            let inputs = [numbers(dtype, count, 1, false), numbers(dtype, count, 2, false)];
            for op in UnaryOp::ALL {
                let mut builder = Builder::new(&[dtype]);
                let param = builder.param(0);
                let Ok(result) = builder.unary(op, param) else { continue };
                check(&map_plan(&[dtype], &[count], builder.finish(&[result])), &inputs[..1], 2.0, 1e-300);
            }
            for op in BinaryOp::ALL {
                let mut builder = Builder::new(&[dtype; 2]);
                let a = builder.param(0);
                let b = builder.param(1);
                let Ok(result) = builder.binary(op, a, b) else { continue };
                check(&map_plan(&[dtype; 2], &[count], builder.finish(&[result])), &inputs, 2.0, 1e-300);
            }
        }
    }
}

#[test]
fn inverse_hyperbolic_cosines_below_1_are_nan() {
    for dtype in [Dtype::F32, Dtype::F64] {
        let values = [0.99, 0.0, -1.0, -1e5, -3e5, -3e7, -1e30].map(|value| Literal::from_f64(dtype, value));
        let bytes = values.iter().flat_map(|value| value.bits().to_le_bytes()[..dtype.size()].to_vec()).collect();
        let mut builder = Builder::new(&[dtype]);
        let param = builder.param(0);
        let result = builder.unary(UnaryOp::Acosh, param).expect("of numbers");
        check(&map_plan(&[dtype], &[values.len()], builder.finish(&[result])), &[bytes], 0.0, 0.0);
    }
}

#[test]
fn each_conversion_agrees_with_the_interpreter() {
    for from in Dtype::ALL {
        let mut builder = Builder::new(&[from]);
        let param = builder.param(0);
        let results: Vec<_> = Dtype::ALL.into_iter().map(|to| builder.cast(param, to)).collect();
        check(&map_plan(&[from], &[3001], builder.finish(&results)), &[numbers(from, 3001, 3, false)], 0.0, 0.0);
    }
}

/// Blocks with one special operand do not take the vectorised power.
#[test]
fn powers_of_special_operands_agree_with_the_interpreter() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.5,
        -2.5,
        3.0,
        -3.0,
        1e-42,
        -1e-42,
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    let mut builder = Builder::new(&[Dtype::F32; 2]);
    let a = builder.param(0);
    let b = builder.param(1);
    let power = builder.binary(BinaryOp::Pow, a, b).expect("of numbers");
    let function = builder.finish(&[power]);
    let bytes = |values: Vec<f32>| values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
    for len in [1, 17, 1025] {
        for base in special {
            for exponent in special {
                let mut operands = [vec![1.5_f32; len], vec![0.75_f32; len]];
                (operands[0][len - 1], operands[1][len - 1]) = (base, exponent);
                check(&map_plan(&[Dtype::F32; 2], &[len], function.clone()), &operands.map(bytes), 1.0, 0.0);
            }
        }
    }
}

#[test]
fn positive_bases_and_small_angles_agree_with_the_interpreter() {
    let count = 5000;
    for op in [BinaryOp::Pow, BinaryOp::Hypot] {
        let mut builder = Builder::new(&[Dtype::F32; 2]);
        let a = builder.param(0);
        let b = builder.param(1);
        let base = builder.unary(UnaryOp::Abs, a).expect("of numbers");
        let result = builder.binary(op, base, b).expect("of numbers");
        let inputs = [numbers(Dtype::F32, count, 1, true), numbers(Dtype::F32, count, 2, true)];
        check(&map_plan(&[Dtype::F32; 2], &[count], builder.finish(&[result])), &inputs, 1.0, 0.0);
    }
    for op in [UnaryOp::Sin, UnaryOp::Cos, UnaryOp::Tan] {
        let mut builder = Builder::new(&[Dtype::F32]);
        let param = builder.param(0);
        let result = builder.unary(op, param).expect("of numbers");
        check(
            &map_plan(&[Dtype::F32], &[count], builder.finish(&[result])),
            &[numbers(Dtype::F32, count, 1, true)],
            1.0,
            0.0,
        );
    }
}

/// `(a + b * c, select(a < b, index, 7))` in a type.
fn mixed(dtype: Dtype) -> Function {
    let mut builder = Builder::new(&[dtype; 3]);
    let params = [0, 1, 2].map(|nth| {
        let param = builder.param(nth);
        builder.cast(param, dtype.compute())
    });
    let product = builder.binary(BinaryOp::Mul, params[1], params[2]).expect("of numbers");
    let sum = builder.binary(BinaryOp::Add, params[0], product).expect("of numbers");
    let sum = builder.cast(sum, dtype);
    let is_less = builder.binary(BinaryOp::Lt, params[0], params[1]).expect("of numbers");
    let index = builder.index();
    let seven = builder.number(Dtype::I64, 7.0);
    let selected = builder.select(is_less, index, seven).expect("of one type");
    builder.finish(&[sum, selected])
}

#[test]
fn strided_reversed_and_broadcast_views_are_read() {
    let shapes: [&[usize]; 9] =
        [&[], &[5], &[0, 3], &[3, 0], &[7, 33], &[70, 131], &[1, 65, 66], &[6, 35, 40], &[3, 1, 40, 2, 50]];
    for dtype in [Dtype::F32, Dtype::F16, Dtype::U8, Dtype::I64] {
        for shape in shapes {
            let views = odd_views(shape);
            for first in 0..views.len() {
                let chosen: Vec<_> = (0..3).map(|nth| &views[(first + nth * 2) % views.len()]).collect();
                let step = MapStep {
                    shape: shape.to_vec(),
                    inputs: (0..3).map(|nth| view(Location::Input(nth), dtype, chosen[nth].1.clone())).collect(),
                    function: mixed(dtype),
                    outputs: vec![
                        whole(Location::Output(0), dtype, shape),
                        whole(Location::Output(1), Dtype::I64, shape),
                    ],
                };
                let plan = one_step(
                    chosen.iter().map(|(shape, _)| tensor(dtype, shape)).collect(),
                    vec![tensor(dtype, shape), tensor(Dtype::I64, shape)],
                    Step::Map(step),
                );
                let input = |(nth, of): (usize, &TensorType)| numbers(dtype, of.elements(), nth as u64, false);
                let inputs: Vec<_> = plan.inputs.iter().enumerate().map(input).collect();
                check(&plan, &inputs, 1.0, 1e-6);
            }
        }
    }
}

#[test]
fn outputs_may_be_strided_parts_of_a_buffer() {
    let mut builder = Builder::new(&[Dtype::I32]);
    let param = builder.param(0);
    let negated = builder.unary(UnaryOp::Neg, param).expect("of integers");
    let function = builder.finish(&[param, negated]);
    let shape = [40, 50];
    let buffer = Layout::contiguous(&[50, 80]);
    let part = |start| view(Location::Output(0), Dtype::I32, buffer.sliced(1, start, 40, 1).permuted(&[1, 0]));
    let step = MapStep {
        shape: shape.to_vec(),
        inputs: vec![whole(Location::Input(0), Dtype::I32, &shape)],
        function,
        outputs: vec![part(0), part(40)],
    };
    let plan = one_step(vec![tensor(Dtype::I32, &shape)], vec![tensor(Dtype::I32, &[50, 80])], Step::Map(step));
    check(&plan, &[numbers(Dtype::I32, 2000, 1, false)], 0.0, 0.0);
}

/// Copies the input to the arena, where it is replaced by `x * y` and `x + y` of two values there.
fn in_place(count: usize) -> Plan {
    let values = [0, 8 * count.next_multiple_of(32)].map(|index| whole(Location::Arena(index), Dtype::F64, &[count]));
    let copy = |function: Function, inputs: Vec<View>, outputs: Vec<View>| {
        Step::Map(MapStep { shape: vec![count], inputs, function, outputs })
    };
    let mut builder = Builder::new(&[Dtype::F64; 2]);
    let x = builder.param(0);
    let y = builder.param(1);
    let product = builder.binary(BinaryOp::Mul, x, y).expect("of numbers");
    let sum = builder.binary(BinaryOp::Add, x, y).expect("of numbers");
    let combined = builder.finish(&[product, sum]);
    let mut builder = Builder::new(&[Dtype::F64; 2]);
    let x = builder.param(0);
    let y = builder.param(1);
    let swapped = builder.finish(&[y, x]);
    let buffers =
        |location: fn(usize) -> Location| (0..2).map(|nth| whole(location(nth), Dtype::F64, &[count])).collect();
    let (inputs, outputs): (Vec<_>, Vec<_>) = (buffers(Location::Input), buffers(Location::Output));
    Plan {
        inputs: vec![tensor(Dtype::F64, &[count]); 2],
        outputs: vec![tensor(Dtype::F64, &[count]); 2],
        arena_bytes: 16 * count.next_multiple_of(32),
        steps: vec![
            copy(swapped.clone(), inputs, values.to_vec()),
            copy(combined, values.to_vec(), values.to_vec()),
            copy(swapped.clone(), values.to_vec(), values.to_vec()),
            copy(swapped, values.to_vec(), outputs),
        ],
    }
}

#[test]
fn an_output_replaces_inputs_of_the_same_layout() {
    for count in [1, 1000, 300_001] {
        let inputs = [numbers(Dtype::F64, count, 4, false), numbers(Dtype::F64, count, 5, false)];
        check(&in_place(count), &inputs, 0.0, 0.0);
    }
}

#[test]
fn unaligned_inputs_are_read() {
    let plan = in_place(100);
    let input = numbers(Dtype::F64, 100, 4, true);
    let mut shifted = vec![0_u8; 801 + 8];
    let start = (1..9).find(|index| !shifted.as_ptr().wrapping_add(*index).addr().is_multiple_of(8)).expect("most are");
    shifted[start..start + 800].copy_from_slice(&input);
    let run = |first: &[u8]| execute(&plan, &[first, &input], &worker(1)).expect("a consistent plan");
    let aligned = run(&input);
    let unaligned = run(&shifted[start..start + 800]);
    assert!(aligned.iter().zip(&unaligned).all(|(a, b)| a.as_ref() == b.as_ref()));
    assert!(aligned.iter().all(|output| output.as_ref().as_ptr().addr().is_multiple_of(64)));
}

#[test]
fn long_work_passes_preemption_points_and_can_be_cancelled() {
    let count = 2_000_000;
    let plan = in_place(count);
    let input = numbers(Dtype::F64, count, 4, true);
    let mut worker = worker(2);
    worker.preemption = Preemption::new(Arc::new(|| ControlFlow::Break(())));
    let cancelled = execute(&plan, &[&input, &input], &worker);
    assert_eq!(cancelled.err(), Some(OpError::Cancelled));
}

/// A process addresses 128 TiB, of which each output would have a half: at least one is not there, whatever the system promises.
#[test]
fn memory_that_does_not_exist_is_an_error_with_that_of_the_whole_plan() {
    let outputs = vec![tensor(Dtype::F64, &[1 << 43]); 3];
    let plan = Plan { inputs: vec![tensor(Dtype::F64, &[1])], outputs, arena_bytes: 1 << 20, steps: vec![] };
    let error = execute(&plan, &[&[0; 8]], &worker(1)).err();
    let requested = 3 * (1 << 46) + (1 << 20);
    assert_eq!(error, Some(OpError::OutOfMemory { device: DeviceId::Cpu, requested, free: 0 }));
}

#[test]
fn views_that_do_not_fit_are_refused() {
    let good = in_place(8);
    let input = numbers(Dtype::F64, 8, 4, true);
    let run = |change: &dyn Fn(&mut MapStep)| {
        let mut plan = good.clone();
        let Step::Map(step) = &mut plan.steps[1] else { panic!("a map") };
        change(step);
        let refused = execute(&plan, &[&input, &input], &worker(1)).err();
        assert!(matches!(refused, Some(OpError::Invalid(_))), "{refused:?} of {:?}", plan.steps[1]);
    };
    run(&|step| step.inputs[0].layout.offset = 57);
    run(&|step| step.inputs[0].layout.strides[0] = -1);
    run(&|step| step.inputs[0].layout.strides[0] = isize::MAX);
    run(&|step| step.inputs[0].layout.shape[0] = 9);
    run(&|step| step.inputs[0].location = Location::Arena(usize::MAX));
    run(&|step| step.inputs[0].location = Location::Arena(4));
    run(&|step| step.inputs[0].location = Location::Output(2));
    run(&|step| step.inputs[0].layout = Layout::contiguous(&[8]).sliced(0, 7, 8, -1));
    run(&|step| step.inputs[1].dtype = Dtype::I64);
    run(&|step| step.outputs[0].location = Location::Input(0));
    run(&|step| step.outputs[0].layout.strides[0] = 0);
    run(&|step| step.outputs[0] = step.outputs[1].clone());
    assert!(execute(&good, &[&input], &worker(1)).is_err(), "an input is missing");
    assert!(execute(&good, &[&input, &input[1..]], &worker(1)).is_err(), "an input is short");
}
