//! Attention.

use accelerd_tensor::{Accumulate, AttentionStep};

use super::*;

#[derive(Clone, Copy)]
struct Case {
    dtype: Dtype,
    /// Batch, heads, heads of keys, queries, keys, columns of keys, columns of values.
    shape: [usize; 7],
    /// Its type, and whether one row serves all queries and heads.
    mask: Option<(Dtype, bool)>,
    has_lengths: bool,
    is_causal: bool,
    scale: f64,
    /// True if operands are `[batch, rows, heads, columns]`.
    is_permuted: bool,
}

const PLAIN: Case = Case {
    dtype: Dtype::F32,
    shape: [2, 3, 3, 5, 7, 11, 13],
    mask: None,
    has_lengths: false,
    is_causal: false,
    scale: 0.1,
    is_permuted: false,
};

/// The layout of `[batch, heads, rows, columns]` and its buffer's shape.
fn heads(case: &Case, heads: usize, rows: usize, columns: usize) -> (Vec<usize>, Layout) {
    let batch = case.shape[0];
    if !case.is_permuted {
        return (vec![batch, heads, rows, columns], Layout::contiguous(&[batch, heads, rows, columns]));
    }
    let buffer = vec![batch, rows, heads, columns];
    let layout = Layout::contiguous(&buffer).permuted(&[0, 2, 1, 3]);
    (buffer, layout)
}

fn plan(case: &Case) -> Plan {
    let [batch, query_heads, kv_heads, queries, keys, dim, value_dim] = case.shape;
    let mut inputs = vec![];
    let mut read = |dtype: Dtype, (shape, layout): (Vec<usize>, Layout)| {
        inputs.push(tensor(dtype, &shape));
        view(Location::Input(inputs.len() - 1), dtype, layout)
    };
    let query = read(case.dtype, heads(case, query_heads, queries, dim));
    let key = read(case.dtype, heads(case, kv_heads, keys, dim));
    let value = read(case.dtype, heads(case, kv_heads, keys, value_dim));
    let whole_mask = [batch, query_heads, queries, keys];
    let mask = case.mask.map(|(dtype, is_shared)| {
        let shape = if is_shared { vec![batch, 1, 1, keys] } else { whole_mask.to_vec() };
        let layout = Layout::contiguous(&shape).broadcast(&whole_mask).expect("broadcasts");
        read(dtype, (shape, layout))
    });
    let lengths = case.has_lengths.then(|| read(Dtype::I32, (vec![batch], Layout::contiguous(&[batch]))));
    let output_shape = [batch, query_heads, queries, value_dim];
    let step = AttentionStep {
        query,
        key,
        value,
        mask,
        lengths,
        is_causal: case.is_causal,
        scale_bits: case.scale.to_bits(),
        accumulate: Accumulate::F32,
        output: whole(Location::Output(0), case.dtype, &output_shape),
    };
    one_step(inputs, vec![tensor(case.dtype, &output_shape)], Step::Attention(step))
}

/// Inputs of a plan. Additive masks have -inf in places, and masks exclude every key of some rows; lengths are within and without 0 to
/// the number of keys.
fn inputs(case: &Case, plan: &Plan) -> Vec<Vec<u8>> {
    let keys = case.shape[4];
    let input = |(nth, of): (usize, &TensorType)| {
        let dtype = of.dtype;
        if dtype == Dtype::I32 {
            let length = |nth: usize| [keys / 2, 0, keys + 3][nth % 3];
            let all = (0..of.elements()).map(|nth| i32::try_from(length(nth)).expect("few keys") - i32::from(nth == 1));
            return all.flat_map(i32::to_le_bytes).collect();
        }
        let mut bytes = numbers(dtype, of.elements(), nth as u64 + 1, true);
        if nth == 3 {
            exclude(&mut bytes, dtype, keys);
        }
        bytes
    };
    plan.inputs.iter().enumerate().map(input).collect()
}

/// Excludes every key of each third row, and each fifth key of others.
fn exclude(mask: &mut [u8], dtype: Dtype, keys: usize) {
    let excluded =
        if dtype == Dtype::Bool { Literal::from_bits(dtype, 0) } else { Literal::from_f64(dtype, f64::NEG_INFINITY) };
    for (nth, element) in mask.chunks_exact_mut(dtype.size()).enumerate() {
        if nth / keys % 3 == 1 || nth % keys % 5 == 2 {
            element.copy_from_slice(&excluded.bits().to_le_bytes()[..dtype.size()]);
        }
    }
}

fn check_case(case: &Case) {
    let plan = plan(case);
    let compute = epsilon(case.dtype.compute());
    // Errors of scores, of sums of tens of products, and of their exponentials; values are at most 5.
    let units = if case.dtype.compute() == case.dtype { 500.0 } else { 1.0 };
    check(&plan, &inputs(case, &plan), units, 500.0 * compute * 5.0);
}

#[test]
fn every_type_attends_with_every_mask() {
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64] {
        for mask in [None, Some((Dtype::Bool, false)), Some((Dtype::F32, true)), Some((dtype, false))] {
            for (is_causal, is_permuted) in [(false, true), (true, false)] {
                check_case(&Case { dtype, mask, is_causal, is_permuted, ..PLAIN });
            }
        }
    }
}

#[test]
fn groups_of_heads_share_keys_and_batches_have_lengths() {
    for (shape, is_causal) in
        [([4, 6, 2, 5, 9, 8, 4], false), ([3, 4, 1, 1, 300, 16, 16], false), ([3, 4, 2, 30, 20, 8, 8], true)]
    {
        let mask = (!is_causal).then_some((Dtype::Bool, true));
        check_case(&Case { shape, is_causal, mask, has_lengths: true, is_permuted: true, ..PLAIN });
        check_case(&Case { shape, is_causal, has_lengths: true, dtype: Dtype::F64, ..PLAIN });
    }
}

#[test]
fn many_queries_and_keys_are_cut_into_blocks() {
    for (dtype, shape, is_causal) in [
        (Dtype::F32, [1, 1, 1, 300, 530, 8, 5], false),
        (Dtype::F32, [1, 2, 2, 300, 290, 8, 5], true),
        (Dtype::F32, [1, 1, 1, 20, 600, 8, 5], true),
        (Dtype::F64, [1, 2, 1, 150, 270, 4, 3], false),
        (Dtype::Bf16, [1, 2, 1, 2, 513, 20, 33], false),
    ] {
        check_case(&Case { dtype, shape, is_causal, ..PLAIN });
    }
    check_case(&Case { shape: [1, 1, 1, 40, 300, 8, 8], mask: Some((Dtype::F32, false)), scale: -0.2, ..PLAIN });
}

#[test]
fn without_keys_the_result_is_0() {
    for shape in [[2, 3, 3, 5, 0, 4, 6], [2, 3, 3, 0, 5, 4, 6], [2, 3, 3, 5, 4, 4, 0], [0, 3, 3, 5, 4, 4, 4]] {
        check_case(&Case { shape, ..PLAIN });
    }
    let plan = plan(&Case { shape: [1, 1, 1, 2, 0, 4, 2], ..PLAIN });
    let query = numbers(Dtype::F32, 8, 1, true);
    let got = execute(&plan, &[&query, &[], &[]], &worker(1)).expect("a consistent plan");
    assert_eq!(got[0].as_ref(), [0; 16]);
}

#[test]
fn large_scores_do_not_overflow_and_numbers_that_are_none_stay_in_their_row() {
    check_case(&Case { scale: 1e4, dtype: Dtype::F64, ..PLAIN });
    for dtype in [Dtype::F32, Dtype::F64] {
        let case = Case { dtype, shape: [1, 1, 1, 40, 30, 2, 3], scale: 1.0, ..PLAIN };
        let plan = plan(&case);
        let mut inputs = inputs(&case, &plan);
        for (nth, special) in [f64::NAN, f64::INFINITY, 1e30].into_iter().enumerate() {
            let bits = Literal::from_f64(dtype, special).bits().to_le_bytes();
            inputs[0][nth * 2 * dtype.size()..][..dtype.size()].copy_from_slice(&bits[..dtype.size()]);
        }
        check(&plan, &inputs, 500.0, 500.0 * epsilon(dtype) * 5.0);
    }
}

#[test]
fn views_and_types_that_do_not_fit_are_refused() {
    let case = Case { mask: Some((Dtype::Bool, false)), has_lengths: true, ..PLAIN };
    let good = plan(&case);
    let inputs = inputs(&case, &good);
    let slices: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let refuse = |change: &dyn Fn(&mut AttentionStep)| {
        let mut plan = good.clone();
        let Step::Attention(step) = &mut plan.steps[0] else { panic!("attention") };
        change(step);
        let refused = execute(&plan, &slices, &worker(1)).err();
        assert!(matches!(refused, Some(OpError::Invalid(_))), "{refused:?} of {:?}", plan.steps[0]);
    };
    refuse(&|step| step.query.layout.shape = vec![2, 3, 5]);
    refuse(&|step| step.key.layout.shape[1] = 2);
    refuse(&|step| step.value.layout.shape[2] = 6);
    refuse(&|step| step.value.dtype = Dtype::I32);
    refuse(&|step| step.query.layout.strides[2] = isize::MAX);
    refuse(&|step| step.mask.iter_mut().for_each(|mask| mask.dtype = Dtype::U8));
    refuse(&|step| step.lengths.iter_mut().for_each(|lengths| lengths.dtype = Dtype::F32));
    refuse(&|step| step.output.location = Location::Input(0));
}

/// A query, and one key and one value that are repeated, of 2 columns each.
fn repeated_keys(keys: usize) -> Plan {
    let mut plan = plan(&Case { shape: [1, 1, 1, 1, keys, 2, 2], ..PLAIN });
    plan.inputs = vec![tensor(Dtype::F32, &[1, 1, 1, 2]); 3];
    let Step::Attention(step) = &mut plan.steps[0] else { panic!("attention") };
    let repeated = Layout::contiguous(&[1, 1, 1, 2]).broadcast(&[1, 1, keys, 2]).expect("a row repeats");
    step.key.layout = repeated.clone();
    step.value.layout = repeated;
    plan
}

fn floats(values: [f32; 2]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn a_row_of_more_keys_than_a_slice_has_the_mean_of_its_values() {
    let query = floats([0.5, -0.25]);
    let value = floats([3.0, -0.75]);
    let got = execute(&repeated_keys(9 << 20), &[&query, &query, &value], &worker(2)).expect("a consistent plan");
    let got: Vec<f32> = got[0].as_ref().chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().expect("4"))).collect();
    assert!((got[0] - 3.0).abs() < 1e-4 && (got[1] + 0.75).abs() < 1e-4, "{got:?}");
}

#[test]
fn a_row_of_as_many_keys_as_there_may_be_is_abandoned_between_slices() {
    let plan = repeated_keys(AttentionStep::MAX_ROWS);
    let row = floats([1.0, 1.0]);
    assert_eq!(execute(&plan, &[&row, &row, &row], &abandoned(3)).err(), Some(OpError::Cancelled));
}

#[test]
fn blocks_of_long_vectors_are_computed_as_others() {
    check_case(&Case { shape: [1, 1, 1, 20, 70, AttentionStep::MAX_COLUMNS / 2, 3], scale: 0.001, ..PLAIN });
}
