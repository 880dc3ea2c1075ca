//! Benchmarks of operations on every backend.

use std::{sync::Arc, time::Duration};

use accelerd_kernels::{
    Backend,
    ops::tensor::{Benchmark, BenchmarkRequest},
};
use accelerd_parity::run_batch;
use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, NodeSpec, Plan, TensorType};

use super::Case;

const REPETITIONS: usize = 3;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("benchmark::operations_of_every_kind_are_timed", timed)]
}

fn plan(op: &str, inputs: &[(Dtype, &[usize])], attributes: &[(&str, Attribute)]) -> Arc<Plan> {
    let inputs: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(nth, (dtype, shape))| (format!("x{nth}"), TensorType { dtype: *dtype, shape: shape.to_vec() }))
        .collect();
    let node = NodeSpec {
        name: "y".to_owned(),
        op: op.to_owned(),
        inputs: inputs.iter().map(|(name, _)| name.clone()).collect(),
        attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    };
    let spec = GraphSpec { inputs, nodes: vec![node], outputs: vec!["y".to_owned()] };
    Arc::new(Plan::new(&Graph::new(&spec).unwrap_or_else(|error| panic!("{op}: {error}"))))
}

fn timed(backend: &mut Backend) -> Result<(), String> {
    use Dtype::{Bf16, Bool, F32, I64};
    let dim = [("dim", Attribute::Int(1))];
    let window = [("kernel_size", Attribute::Int(2))];
    let plans = [
        plan("where", &[(Bool, &[33, 65]), (F32, &[33, 65]), (F32, &[65])], &[]),
        plan("sum", &[(F32, &[33, 65])], &dim),
        plan("argmax", &[(F32, &[33, 65])], &dim),
        plan("softmax", &[(F32, &[33, 65])], &dim),
        plan("layer_norm", &[(F32, &[33, 65])], &[("normalized_shape", Attribute::Ints(vec![65]))]),
        plan("matmul", &[(F32, &[33, 65]), (F32, &[65, 17])], &[]),
        plan("linear", &[(Bf16, &[32, 64]), (Bf16, &[16, 64]), (Bf16, &[16])], &[]),
        plan("embedding", &[(F32, &[10, 65]), (I64, &[33])], &[]),
        plan("cumsum", &[(F32, &[33, 65])], &dim),
        plan("argsort", &[(F32, &[33, 65])], &[]),
        plan("conv2d", &[(Bf16, &[2, 8, 9, 9]), (Bf16, &[16, 8, 3, 3])], &[]),
        plan("max_pool2d", &[(F32, &[2, 3, 8, 8])], &window),
        plan("scaled_dot_product_attention", &[(Bf16, &[2, 2, 33, 64][..]); 3], &[]),
    ];
    for plan in plans {
        let step = format!("{:?}", plan.steps);
        let below = vec![10; plan.inputs.len()];
        let request = BenchmarkRequest::new(Arc::clone(&plan), &below, backend.device())
            .map_err(|e| e.to_string())?
            .repeated(REPETITIONS, Duration::from_secs(600), None);
        let measured =
            run_batch::<Benchmark>(&[request], backend).map_err(|error| format!("{step}: {error}"))?.remove(0);
        let is_product = plan.product_kind().is_some();
        let (_, share) = measured.bound(&plan);
        let is_complete = measured.times.len() == REPETITIONS
            && measured.launches > 0
            && measured.times[0] > Duration::ZERO
            && measured.copy_rate > 0.0
            && measured.product_rate.is_some_and(|rate| rate > 0.0) == is_product
            && share > 0.0;
        if !is_complete {
            return Err(format!("{step}: {measured:?}"));
        }
    }
    Ok(())
}
