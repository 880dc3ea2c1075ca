//! Reductions and indices of extreme values.

use accelerd_tensor::{ArgReduction, ReduceStep, Reduction};

use super::*;

/// Values that the reduction neither cancels nor overflows.
fn prologue(reduction: Reduction, dtype: Dtype) -> Function {
    let mut builder = Builder::new(&[dtype]);
    let param = builder.param(0);
    let value = builder.cast(param, dtype.compute());
    if !dtype.is_float() {
        return builder.finish(&[value]);
    }
    let compute = dtype.compute();
    let mut with = |op, number, value| {
        let number = builder.number(compute, number);
        builder.binary(op, value, number).expect("of numbers")
    };
    let value = if reduction == Reduction::Prod {
        let small = with(BinaryOp::Mul, 1e-3, value);
        with(BinaryOp::Add, 1.0, small)
    } else if reduction == Reduction::SquaredDeviations {
        with(BinaryOp::Add, 1000.0, value)
    } else if reduction == Reduction::Sum {
        builder.unary(UnaryOp::Abs, value).expect("of numbers")
    } else {
        value
    };
    builder.finish(&[value])
}

/// Adds the index to an integer, and converts to the type.
fn epilogue(accumulate: Dtype, to: Dtype) -> Function {
    let mut builder = Builder::new(&[accumulate]);
    let value = builder.param(0);
    let value = if accumulate.is_integer() {
        let index = builder.index();
        let index = builder.cast(index, accumulate);
        builder.binary(BinaryOp::Add, value, index).expect("of numbers")
    } else {
        value
    };
    let result = builder.cast(value, to);
    builder.finish(&[result])
}

/// The reduction of a view of an input of shape `[outer, inner]`.
fn reduce_plan(
    reduction: Reduction,
    dtype: Dtype,
    outer: &[usize],
    inner: &[usize],
    of: &(Vec<usize>, Layout),
) -> Plan {
    let step = ReduceStep {
        outer: outer.to_vec(),
        inner: inner.to_vec(),
        inputs: vec![view(Location::Input(0), dtype, of.1.clone())],
        prologue: prologue(reduction, dtype),
        reduction,
        accumulate: dtype.compute(),
        epilogue: epilogue(dtype.compute(), dtype),
        output: whole(Location::Output(0), dtype, outer),
    };
    one_step(vec![tensor(dtype, &of.0)], vec![tensor(dtype, outer)], Step::Reduce(step))
}

fn reduces(reduction: Reduction, dtype: Dtype) -> bool {
    let combination = reduction.combination();
    dtype.is_float() || !combination.is_of_floats && (dtype != Dtype::Bool || combination.of_bool == reduction)
}

/// Units of the last place that the result may be wrong by. Each factor of a product may add half a unit. Squared deviations of f64 have a
/// mean of f64, of which the error grows with its ratio to the standard deviation, here 350.
fn units(reduction: Reduction, dtype: Dtype, inner: &[usize]) -> f64 {
    if reduction == Reduction::Prod {
        inner.iter().product::<usize>().max(30) as f64
    } else if reduction == Reduction::SquaredDeviations && dtype == Dtype::F64 {
        350.0
    } else {
        30.0
    }
}

/// The absolute error of a result near 0: a logarithm cancels the greatest value, and a mean rounds.
fn absolute(reduction: Reduction, dtype: Dtype) -> f64 {
    if reduction.combination().is_of_floats { 8.0 * epsilon(dtype.compute()) } else { 0.0 }
}

const SHAPES: [(&[usize], &[usize]); 10] = [
    (&[], &[]),
    (&[], &[5000]),
    (&[7], &[]),
    (&[3, 5], &[2]),
    (&[1300], &[3]),
    (&[40], &[31, 7]),
    (&[3], &[90, 70]),
    (&[65], &[150]),
    (&[9, 11], &[2, 33]),
    (&[2], &[40_001]),
];

#[test]
fn each_reduction_of_each_type_and_layout_agrees_with_the_oracle() {
    for dtype in Dtype::ALL {
        for reduction in Reduction::ALL.into_iter().filter(|reduction| reduces(*reduction, dtype)) {
            for (outer, inner) in SHAPES {
                for of in odd_views(&[outer, inner].concat()) {
                    let plan = reduce_plan(reduction, dtype, outer, inner, &of);
                    let is_tame = !reduction.combination().is_selection;
                    let inputs = [numbers(dtype, plan.inputs[0].elements(), 5, is_tame)];
                    check(&plan, &inputs, units(reduction, dtype, inner), absolute(reduction, dtype));
                }
            }
        }
    }
}

#[test]
fn infinities_and_nan_reach_the_results() {
    for (outer, inner) in SHAPES {
        for reduction in [Reduction::Sum, Reduction::LogSumExp, Reduction::Max] {
            let of = ([outer, inner].concat(), Layout::contiguous(&[outer, inner].concat()));
            let plan = reduce_plan(reduction, Dtype::F64, outer, inner, &of);
            check(&plan, &[numbers(Dtype::F64, plan.inputs[0].elements(), 5, false)], 100.0, 0.0);
        }
    }
}

#[test]
fn a_reduction_of_nothing_is_its_neutral_value() {
    for reduction in Reduction::ALL.into_iter().filter(|reduction| !reduction.combination().is_selection) {
        for (outer, inner) in [(&[3][..], &[0, 4][..]), (&[0], &[4]), (&[0], &[0]), (&[], &[0])] {
            let of = ([outer, inner].concat(), Layout::contiguous(&[outer, inner].concat()));
            check(&reduce_plan(reduction, Dtype::F32, outer, inner, &of), &[vec![]], 0.0, 0.0);
        }
    }
}

#[test]
fn long_rows_and_columns_are_cut_and_give_the_same_bits_with_any_number_of_threads() {
    for reduction in Reduction::ALL {
        for (outer, inner) in [(&[2][..], &[200_001][..]), (&[300], &[1500]), (&[70_000], &[5])] {
            let shape = [outer, inner].concat();
            let turned: Vec<usize> = shape.iter().rev().copied().collect();
            let of = [
                (shape.clone(), Layout::contiguous(&shape)),
                (turned.clone(), Layout::contiguous(&turned).permuted(&[1, 0])),
            ];
            for of in of {
                let plan = reduce_plan(reduction, Dtype::F32, outer, inner, &of);
                check(
                    &plan,
                    &[numbers(Dtype::F32, plan.inputs[0].elements(), 6, true)],
                    units(reduction, Dtype::F32, inner),
                    absolute(reduction, Dtype::F32),
                );
            }
        }
    }
}

#[test]
fn a_reduction_may_have_no_input() {
    let mut builder = Builder::new(&[]);
    let index = builder.index();
    let step = ReduceStep {
        outer: vec![11],
        inner: vec![300],
        inputs: vec![],
        prologue: builder.finish(&[index]),
        reduction: Reduction::Sum,
        accumulate: Dtype::I64,
        epilogue: epilogue(Dtype::I64, Dtype::I64),
        output: whole(Location::Output(0), Dtype::I64, &[11]),
    };
    check(&one_step(vec![], vec![tensor(Dtype::I64, &[11])], Step::Reduce(step)), &[], 0.0, 0.0);
}

#[test]
fn the_first_extreme_value_is_found() {
    for dtype in Dtype::ALL {
        for (outer, inner) in SHAPES {
            for of in odd_views(&[outer, inner].concat()) {
                for is_max in [false, true] {
                    let step = ArgReduction {
                        outer: outer.to_vec(),
                        inner: inner.to_vec(),
                        input: view(Location::Input(0), dtype, of.1.clone()),
                        is_max,
                        output: whole(Location::Output(0), Dtype::I64, outer),
                    };
                    let plan =
                        one_step(vec![tensor(dtype, &of.0)], vec![tensor(Dtype::I64, outer)], Step::ArgReduce(step));
                    for is_tame in [true, false] {
                        check(&plan, &[numbers(dtype, plan.inputs[0].elements(), 7, is_tame)], 0.0, 0.0);
                    }
                }
            }
        }
    }
}

fn arg_plan(outer: &[usize], inner: &[usize], is_max: bool) -> Plan {
    let shape = [outer, inner].concat();
    let step = ArgReduction {
        outer: outer.to_vec(),
        inner: inner.to_vec(),
        input: whole(Location::Input(0), Dtype::F32, &shape),
        is_max,
        output: whole(Location::Output(0), Dtype::I64, outer),
    };
    one_step(vec![tensor(Dtype::F32, &shape)], vec![tensor(Dtype::I64, outer)], Step::ArgReduce(step))
}

/// Three rows of negative zeros but for values at some positions, in each row one further than in the one before.
fn sparse_rows(len: usize, at: &[(usize, f32)]) -> Vec<u8> {
    let mut rows = vec![-0.0_f32; 3 * len];
    for (row, values) in rows.chunks_mut(len).enumerate() {
        for (position, value) in at.iter().filter(|(position, _)| position + row < len) {
            values[position + row] = *value;
        }
    }
    rows.into_iter().flat_map(f32::to_le_bytes).collect()
}

#[test]
fn extremes_ties_and_nan_are_found_at_the_edges_of_blocks() {
    let subnormal = f32::from_bits(1);
    for len in [1, 127, 129, 4095, 4098, 8191, 8194, 20_001] {
        for index in [0, 1, 126, 127, 128, 4094, 4095, 4096, 8190, 8192, 16_384, 20_000] {
            let marks = [
                vec![(index, 1.0)],
                vec![(index, -1.0)],
                vec![(index, 2.0), (index + 1, 2.0), (index + 700, 2.0)],
                vec![(index, subnormal), (index + 5, -subnormal)],
                vec![(index, f32::INFINITY), (index + 3, f32::NEG_INFINITY), (index + 4, f32::INFINITY)],
                vec![(0, f32::INFINITY), (index, f32::NAN), (index + 9000, f32::NAN)],
                vec![(index, 0.0), (index + 130, 0.0)],
            ];
            for marks in marks {
                let input = [sparse_rows(len, &marks)];
                for is_max in [false, true] {
                    check(&arg_plan(&[3], &[len], is_max), &input, 0.0, 0.0);
                    let reduction = if is_max { Reduction::Max } else { Reduction::Min };
                    let of = (vec![3, len], Layout::contiguous(&[3, len]));
                    let mut plan = reduce_plan(reduction, Dtype::F32, &[3], &[len], &of);
                    let Step::Reduce(step) = &mut plan.steps[0] else { panic!("a reduction") };
                    step.prologue = Function::conversion(Dtype::F32, Dtype::F32);
                    step.epilogue = Function::conversion(Dtype::F32, Dtype::F32);
                    check(&plan, &input, 0.0, 0.0);
                }
            }
        }
    }
}

#[test]
fn wide_columns_give_the_same_bits_with_any_number_of_threads() {
    for (outer, inner) in [([9000], [1100]), ([4096], [513]), ([5], [3000])] {
        for reduction in [Reduction::Sum, Reduction::Max] {
            let turned = [inner[0], outer[0]];
            let of = (turned.to_vec(), Layout::contiguous(&turned).permuted(&[1, 0]));
            let mut plan = reduce_plan(reduction, Dtype::F32, &outer, &inner, &of);
            let Step::Reduce(step) = &mut plan.steps[0] else { panic!("a reduction") };
            step.prologue = Function::conversion(Dtype::F32, Dtype::F32);
            check(&plan, &[numbers(Dtype::F32, turned[0] * turned[1], 8, true)], 4.0, 1e-3);
        }
    }
}

#[test]
fn a_reduction_that_a_type_does_not_have_is_refused() {
    let of = (vec![4], Layout::contiguous(&[4]));
    let mut plan = reduce_plan(Reduction::LogSumExp, Dtype::I32, &[], &[4], &of);
    let input = numbers(Dtype::I32, 4, 1, true);
    let refused = execute(&plan, &[&input], &worker(1)).err();
    assert!(matches!(refused, Some(OpError::Invalid(_))), "{refused:?}");
    let Step::Reduce(step) = &mut plan.steps[0] else { panic!("a reduction") };
    step.reduction = Reduction::Sum;
    step.accumulate = Dtype::I64;
    assert!(execute(&plan, &[&input], &worker(1)).is_err(), "the prologue has another type");
}

#[test]
fn reductions_of_more_values_than_memory_pass_preemption_points() {
    const LEN: usize = 1 << 42;
    for (rows, dtype) in [(1, Dtype::F32), (3, Dtype::F64), (64, Dtype::F32), (1000, Dtype::I64)] {
        let repeated = (vec![], Layout::contiguous(&[]).broadcast(&[rows, LEN]).expect("a scalar repeats"));
        let input = vec![0; dtype.size()];
        for reduction in Reduction::ALL.into_iter().filter(|reduction| reduces(*reduction, dtype)) {
            let plan = reduce_plan(reduction, dtype, &[rows], &[LEN], &repeated);
            let ended = execute(&plan, &[&input], &abandoned(3)).err();
            assert_eq!(ended, Some(OpError::Cancelled), "{reduction:?} of {rows} rows");
        }
        let step = ArgReduction {
            outer: vec![rows],
            inner: vec![LEN],
            input: view(Location::Input(0), dtype, repeated.1.clone()),
            is_max: true,
            output: whole(Location::Output(0), Dtype::I64, &[rows]),
        };
        let plan = one_step(vec![tensor(dtype, &[])], vec![tensor(Dtype::I64, &[rows])], Step::ArgReduce(step));
        assert_eq!(execute(&plan, &[&input], &abandoned(3)).err(), Some(OpError::Cancelled), "of {rows} rows");
    }
}
