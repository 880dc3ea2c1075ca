//! The operation: executes the plan of a graph.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use accelerd_tensor::Plan;
use bytes::Bytes;

use super::{cpu, cuda};
use crate::{Backend, Op, OpError, Size};

/// A graph to execute.
#[derive(Clone, Debug)]
pub struct ExecuteRequest {
    plan: Arc<Plan>,
    plan_hash: [u64; 2],
    inputs: Vec<Bytes>,
}

impl ExecuteRequest {
    /// `inputs` are little-endian elements in row-major order, one for each input of the plan. [`Execute`] checks their lengths.
    pub fn new(plan: Arc<Plan>, inputs: Vec<Bytes>) -> Self {
        let plan_hash = [0_u8, 1].map(|seed| {
            let mut hasher = DefaultHasher::new();
            (seed, &*plan).hash(&mut hasher);
            hasher.finish()
        });
        Self { plan, plan_hash, inputs }
    }
}

/// The operation.
#[derive(Debug)]
pub struct Execute;

impl Op for Execute {
    const NAME: &'static str = "tensor";
    type Request = ExecuteRequest;
    /// The outputs, as the plan lists them.
    type Response = Vec<Bytes>;
    /// 128 bits of hash of the plan.
    type Key = [u64; 2];

    fn key(request: &ExecuteRequest) -> [u64; 2] {
        request.plan_hash
    }

    fn size(request: &ExecuteRequest) -> Size {
        let inputs: u64 = request.inputs.iter().map(|input| input.len() as u64).sum();
        Size { items: 1, bytes: inputs.saturating_add(request.plan.allocated_bytes() as u64) }
    }

    fn cost(request: &ExecuteRequest) -> u64 {
        request.plan.cost()
    }

    fn run(batch: &[&ExecuteRequest], on: &mut Backend) -> Result<Vec<Vec<Bytes>>, OpError> {
        batch.iter().map(|request| request.run(on)).collect()
    }
}

impl ExecuteRequest {
    fn run(&self, on: &Backend) -> Result<Vec<Bytes>, OpError> {
        let inputs: Vec<_> = self.inputs.iter().map(|input| &input[..]).collect();
        match on {
            Backend::Cpu(worker) => {
                let outputs = cpu::execute(&self.plan, &inputs, worker)?;
                Ok(outputs.into_iter().map(Bytes::from_owner).collect())
            }
            Backend::Cuda(worker) => cuda::executor::execute(&self.plan, &inputs, worker),
        }
    }
}
