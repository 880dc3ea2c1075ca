//! The subject of a measurement: a plan, and the plan that generates its inputs on the device.

use std::sync::Arc;

use accelerd_tensor::{
    Accumulate, Attribute, Dtype, Graph, GraphError, GraphSpec, NodeSpec, Plan, TensorType, Workload,
};

use crate::DeviceId;

/// A plan and its generator.
#[derive(Clone, Debug)]
pub(in super::super) struct Subject {
    pub(in super::super) plan: Arc<Plan>,
    /// Its outputs are the inputs of the plan.
    pub(in super::super) generator: Arc<Plan>,
}

impl Subject {
    /// `integers_below` has an entry for each input.
    pub(super) fn new(plan: Arc<Plan>, integers_below: &[i64]) -> Result<Self, GraphError> {
        let generator = Arc::new(generator(&plan.inputs, integers_below)?);
        Ok(Self { plan, generator })
    }

    /// A product of square matrices that is large enough to reach the rate of the device, and takes a few milliseconds.
    pub(super) fn product((dtype, accumulate): (Dtype, Accumulate), device: DeviceId) -> Result<Self, GraphError> {
        let is_fast = dtype.size() < 4 || accumulate == Accumulate::Tf32;
        let extent = match device {
            DeviceId::Cpu => 512,
            DeviceId::Cuda(_) if is_fast => 4096,
            DeviceId::Cuda(_) => 2048,
        };
        let ty = TensorType { dtype, shape: vec![extent; 2] };
        let precision = (accumulate == Accumulate::Tf32).then(|| text("precision", "high"));
        let inputs = ["a", "b"].map(str::to_owned);
        let spec = GraphSpec {
            nodes: vec![node("product", "matmul", &inputs, precision)],
            inputs: inputs.into_iter().map(|name| (name, ty.clone())).collect(),
            outputs: vec!["product".to_owned()],
        };
        Self::new(Arc::new(Plan::new(&Graph::new(&spec)?)), &[2, 2])
    }

    /// Bytes of inputs and intermediate values.
    pub(in super::super) fn bytes(&self) -> u64 {
        let during = self.plan.allocated_bytes().max(self.generator.arena_bytes);
        let inputs = self.plan.inputs.iter().map(|ty| ty.bytes() as u64).fold(0, u64::saturating_add);
        inputs.saturating_add(during as u64)
    }

    /// The bytes that a repetition moves and the operations that it computes.
    pub(in super::super) fn workload(&self) -> Workload {
        self.plan.workload()
    }
}

/// Generates tensors of these types.
fn generator(types: &[TensorType], integers_below: &[i64]) -> Result<Plan, GraphError> {
    let mut spec = GraphSpec::default();
    for (nth, (ty, below)) in types.iter().zip(integers_below).enumerate() {
        spec.outputs.push(format!("operands[{nth}]"));
        spec.nodes.extend(random(nth, ty, *below));
    }
    Graph::new(&spec).map(|graph| Plan::new(&graph))
}

/// Nodes of which the last one is named after the operand.
fn random(nth: usize, ty: &TensorType, below: i64) -> Vec<NodeSpec> {
    let extents = ty.shape.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect();
    let shape = || ("shape".to_owned(), Attribute::Ints(Vec::clone(&extents)));
    let seed = || ("seed".to_owned(), Attribute::Int(i64::try_from(nth).unwrap_or_default()));
    let dtype = || text("dtype", &ty.dtype.to_string());
    let name = format!("operands[{nth}]");
    if ty.dtype == Dtype::Bool {
        let uniform = format!("{name}.uniform");
        let half = ("other".to_owned(), Attribute::Float(0.5));
        let is_high = node(&name, "ge", std::slice::from_ref(&uniform), [half]);
        return vec![node(&uniform, "rand", &[], [shape(), seed()]), is_high];
    }
    if ty.dtype.is_float() {
        return vec![node(&name, "rand", &[], [shape(), seed(), dtype()])];
    }
    let high = ("high".to_owned(), Attribute::Int(below));
    vec![node(&name, "randint", &[], [shape(), seed(), dtype(), high])]
}

fn node(
    name: &str,
    op: &str,
    inputs: &[String],
    attributes: impl IntoIterator<Item = (String, Attribute)>,
) -> NodeSpec {
    let attributes = attributes.into_iter().collect();
    NodeSpec { name: name.to_owned(), op: op.to_owned(), inputs: inputs.to_vec(), attributes }
}

fn text(name: &str, value: &str) -> (String, Attribute) {
    (name.to_owned(), Attribute::Text(value.to_owned()))
}
