//! Requests of data sets, checked.

use accelerd_dataset::{Category, Dialect, Plan, PlanError, Ratios};
use accelerd_kernels::ops::translate::Targets;

use crate::{error::ApiError, kernels::launch::KernelDevice};

/// The most pairs of a call.
const MAX_PAIRS: u64 = 100_000;
/// Percentages that are not set.
const DEFAULT_PERCENT: u32 = 10;

/// The pairs that a client wants.
#[derive(Debug)]
pub(crate) struct DatasetRequest {
    pub(crate) pair_count: u64,
    pub(crate) seed: u64,
    /// Empty for all that the dialects have.
    pub(crate) categories: Vec<Category>,
    /// Empty for all.
    pub(crate) dialects: Vec<Dialect>,
    pub(crate) first_index: u64,
    pub(crate) validation_percent: Option<u32>,
    pub(crate) test_percent: Option<u32>,
    pub(crate) targets: Targets,
    /// Where kernels run; `None` for wherever they can.
    pub(crate) device: Option<KernelDevice>,
}

impl DatasetRequest {
    /// The kernels to make.
    pub(super) fn plan(&self) -> Result<Plan, ApiError> {
        let pair_count = self.pair_count;
        if !(1..=MAX_PAIRS).contains(&pair_count) {
            return Err(ApiError::invalid("pair_count", format!("expected 1 to {MAX_PAIRS} pairs, got {pair_count}")));
        }
        plan(self)
    }
}

fn plan(request: &DatasetRequest) -> Result<Plan, ApiError> {
    let dialects = match request.dialects.as_slice() {
        [] => vec![Dialect::Warp, Dialect::Python],
        named => named.to_vec(),
    };
    let categories = match request.categories.as_slice() {
        [] => Category::ALL.into_iter().filter(|of| dialects.iter().any(|dialect| of.has(*dialect))).collect(),
        named => named.to_vec(),
    };
    Plan::new(request.seed, &categories, &dialects, ratios(request)?).map_err(|error| match error {
        PlanError::Categories => ApiError::invalid("categories", "expected each category once"),
        PlanError::Dialects => ApiError::invalid("dialects", "expected each dialect once"),
        PlanError::NoKernels(category) => {
            let reason = format!("expected a category that one of the dialects has, got {}", category.name());
            ApiError::invalid("categories", reason)
        }
    })
}

fn ratios(request: &DatasetRequest) -> Result<Ratios, ApiError> {
    let validation = request.validation_percent.unwrap_or(DEFAULT_PERCENT);
    let test = request.test_percent.unwrap_or(DEFAULT_PERCENT);
    if u64::from(validation) + u64::from(test) > 100 {
        let reason = format!("expected at most 100 percent with validation_percent, got {validation} and {test}");
        return Err(ApiError::invalid("test_percent", reason));
    }
    let percent = |of| u8::try_from(of).expect("at most 100");
    Ok(Ratios { validation: percent(validation), test: percent(test) })
}
