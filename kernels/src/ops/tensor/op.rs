//! The operation: executes the plan of a graph.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use accelerd_tensor::Plan;
use bytes::Bytes;

use super::{cpu, cuda as tensor_cuda};
use crate::{Backend, Op, OpError, Size, cuda};

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
    /// Measures the steps of the plan alone, on a GPU: the time of one run in each of `samples` samples of `runs` runs, with inputs on
    /// the device and kernels loaded.
    pub fn time_on_gpu(&self, on: &cuda::Worker, samples: usize, runs: u32) -> Result<Vec<Duration>, OpError> {
        tensor_cuda::executor::time(&self.plan, &self.slices(), on, samples, runs)
    }

    fn slices(&self) -> Vec<&[u8]> {
        self.inputs.iter().map(|input| &input[..]).collect()
    }

    fn run(&self, on: &Backend) -> Result<Vec<Bytes>, OpError> {
        let inputs = self.slices();
        match on {
            Backend::Cpu(worker) => {
                let outputs = cpu::execute(&self.plan, &inputs, worker)?;
                Ok(outputs.into_iter().map(Bytes::from_owner).collect())
            }
            Backend::Cuda(worker) => tensor_cuda::executor::execute(&self.plan, &inputs, worker),
        }
    }
}
