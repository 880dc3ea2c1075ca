//! Comparison of tensors: which pairs of elements are equal under a policy, and how far the others are apart.
//!
//! Everything is counted and measured exactly, with equal bits on every backend: errors are computed in f64, where each operation
//! rounds once, and a maximum is the first of the largest. [`oracle`] states the definition in plain loops.
//!
//! The distance of two floating-point numbers in units in the last place is the number of representable numbers from one to the
//! other: 0 for -0 and +0, 1 for neighbours, and the sum of the distances from zero for numbers of opposite signs. That of integers
//! is their difference.

mod block;
mod bounds;
mod comparison;
mod cpu;
pub(crate) mod cuda;
mod element;
mod judge;
pub mod oracle;
mod passes;
mod policy;
mod scaled;
#[cfg(test)]
mod tests;

pub use comparison::{BUCKETS, Class, Comparison, Counts, Largest, Mismatch, PairErrors};
pub use policy::{Close, Combination, InfinityPolicy, NanPolicy, Policy, Rules};

use accelerd_ir::Dtype;

use self::judge::{Judge, Rows};
use crate::{Backend, DeviceId, Op, OpError, Size, ops::tensor::TensorInput};

/// Two tensors of one type and number of elements, and how they are compared.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Element type.
    pub dtype: Dtype,
    /// Elements of each.
    pub elements: usize,
    /// The computed tensor.
    pub actual: TensorInput,
    /// The tensor that it is compared with.
    pub expected: TensorInput,
    /// Which pairs of elements count as equal.
    pub policy: Policy,
    /// The most mismatches to list.
    pub max_mismatches: usize,
    /// Rows whose verdicts are returned; 0 for none. They are of equal length.
    pub rows: usize,
}

/// Pairs of tensors to compare, on one device.
#[derive(Clone, Debug)]
pub struct CompareRequest {
    pairs: Vec<Pair>,
    device: Option<DeviceId>,
}

/// The comparison op.
#[derive(Debug)]
pub struct Compare;

impl CompareRequest {
    /// Compares on the device of the resident tensors, or on any.
    pub fn new(pairs: Vec<Pair>) -> Self {
        let device = pairs.iter().find_map(|pair| pair.actual.device().or(pair.expected.device()));
        Self { pairs, device }
    }
}

impl Pair {
    fn check(&self) -> Result<(), OpError> {
        let expected = self.elements.checked_mul(self.dtype.size());
        for input in [&self.actual, &self.expected] {
            if expected != Some(input.len()) {
                let reason =
                    format!("expected {} elements of {}, got {} bytes", self.elements, self.dtype, input.len());
                return Err(OpError::Invalid(reason));
            }
        }
        if self.rows > 0 && !self.elements.is_multiple_of(self.rows) {
            return Err(OpError::Invalid(format!("expected rows of {} elements, got {}", self.elements, self.rows)));
        }
        Ok(())
    }

    /// `norm` is the largest absolute value of the finite expected numbers; computed only if the policy needs it.
    fn judge(&self, norm: impl FnOnce() -> Result<f64, OpError>) -> Result<Judge, OpError> {
        let norm_bound = self.policy.rules.max_norm.map(|factor| Ok::<_, OpError>(factor * norm()?)).transpose()?;
        Ok(Judge {
            policy: self.policy,
            norm_bound: norm_bound.unwrap_or_default(),
            max_mismatches: self.max_mismatches,
        })
    }

    fn row_marks(&self) -> Option<Rows> {
        (self.rows > 0).then(|| Rows::new(self.rows, self.elements / self.rows))
    }

    fn bytes(&self) -> u64 {
        (self.elements as u64).saturating_mul(2 * self.dtype.size() as u64)
    }
}

impl Op for Compare {
    const NAME: &'static str = "compare";
    type Request = CompareRequest;
    /// One for each pair, in order.
    type Response = Vec<Comparison>;
    type Key = ();

    fn key(_: &CompareRequest) {}

    fn size(request: &CompareRequest) -> Size {
        let inline = |pair: &Pair| {
            let rows = pair.rows as u64 / 8;
            pair.actual.inline_bytes() + pair.expected.inline_bytes() + rows + size_of::<Comparison>() as u64
        };
        Size { items: (request.pairs.len() as u64).max(1), bytes: request.pairs.iter().map(inline).sum() }
    }

    fn device_affinity(request: &CompareRequest) -> Option<DeviceId> {
        request.device
    }

    fn cpu_fallback(request: &CompareRequest) -> bool {
        request.pairs.iter().all(|pair| pair.actual.is_on_host() && pair.expected.is_on_host())
    }

    /// Bytes that are compared.
    fn cost(request: &CompareRequest) -> u64 {
        request.pairs.iter().map(Pair::bytes).fold(1, u64::saturating_add)
    }

    fn run(batch: &[&CompareRequest], on: &mut Backend) -> Result<Vec<Vec<Comparison>>, OpError> {
        let pairs: Vec<&Pair> = batch.iter().flat_map(|request| &request.pairs).collect();
        pairs.iter().try_for_each(|pair| pair.check())?;
        let compared = match on {
            Backend::Cpu(worker) => cpu::run(&pairs, worker)?,
            Backend::Cuda(worker) => cuda::run(&pairs, worker)?,
        };
        let mut compared = compared.into_iter();
        Ok(batch.iter().map(|request| compared.by_ref().take(request.pairs.len()).collect()).collect())
    }
}
