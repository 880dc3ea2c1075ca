//! Times of a plan, and figures derived from them.

use std::time::Duration;

use accelerd_tensor::Plan;

use super::{BenchmarkRequest, copy_bytes};

/// Measurements of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Benchmarked {
    /// The time of each repetition, in ascending order; at least one.
    pub times: Vec<Duration>,
    /// Launches of a repetition on a GPU; steps on the CPU.
    pub launches: usize,
    /// Bytes that a copy on the device reads and writes in a second.
    pub copy_rate: f64,
    /// Operations of a large product in a second.
    pub product_rate: Option<f64>,
}

/// The resource that bounds the time of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchmarkBound {
    /// Moving its inputs and outputs.
    Memory,
    /// Its products.
    Product,
}

/// A quantity in a time; the time counts as at least a nanosecond.
fn rate(quantity: u64, time: Duration) -> f64 {
    quantity as f64 / time.max(Duration::from_nanos(1)).as_secs_f64()
}

/// The time that a share of `times`, which are in ascending order, does not exceed.
fn quantile(times: &[Duration], share: f64) -> Duration {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position in the list")]
    let rank = (share * times.len() as f64).ceil() as usize;
    times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

impl Benchmarked {
    /// `copies` and `products` are the times of copies and of products, in ascending order.
    pub(in super::super) fn new(
        request: &BenchmarkRequest,
        times: Vec<Duration>,
        launches: usize,
        copies: &[Duration],
        products: Option<Vec<Duration>>,
    ) -> Self {
        let copied = 2 * copy_bytes(request.device) as u64;
        let product_rate = request
            .product
            .as_ref()
            .zip(products)
            .map(|(product, times)| rate(product.workload().product_operations, quantile(&times, 0.5)));
        Self { times, launches, copy_rate: rate(copied, quantile(copies, 0.5)), product_rate }
    }

    /// A quantity in the median time of a repetition, for each second.
    pub fn rate(&self, quantity: u64) -> f64 {
        rate(quantity, self.quantile(0.5))
    }

    /// The time that this share of the repetitions does not exceed.
    pub fn quantile(&self, share: f64) -> Duration {
        quantile(&self.times, share)
    }

    /// The resource that bounds the measured plan, and the share of the median time that the bound is.
    pub fn bound(&self, plan: &Plan) -> (BenchmarkBound, f64) {
        let moving = plan.least_moved() as f64 / self.copy_rate;
        let products = self.product_rate.map_or(0.0, |rate| plan.workload().product_operations as f64 / rate);
        let bound = if products > moving { BenchmarkBound::Product } else { BenchmarkBound::Memory };
        let median = self.quantile(0.5).max(Duration::from_nanos(1)).as_secs_f64();
        (bound, products.max(moving) / median)
    }
}
