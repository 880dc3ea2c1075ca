//! Decodes a request, and names what a pair is.

use accelerd_dataset::{Category, Dialect, Plan, PlanError, Ratios, Split};
use accelerd_kernels::ops::translate::Targets;
use accelerd_proto::v1 as pb;

use super::super::targets;
use crate::{error::ApiError, kernels};

/// The most pairs of a call.
const MAX_PAIRS: u64 = 100_000;
/// Percentages that are not set.
const DEFAULT_PERCENT: u32 = 10;

/// A valid request.
pub(super) struct Decoded {
    pub(super) plan: Plan,
    pub(super) ratios: Ratios,
    pub(super) targets: Targets,
    pub(super) device: pb::KernelDevice,
    pub(super) first_index: u64,
    pub(super) pair_count: u64,
}

impl Decoded {
    pub(super) fn new(request: &pb::GenerateDatasetRequest) -> Result<Self, ApiError> {
        let &pb::GenerateDatasetRequest { pair_count, first_index, .. } = request;
        if !(1..=MAX_PAIRS).contains(&pair_count) {
            return Err(ApiError::invalid("pair_count", format!("expected 1 to {MAX_PAIRS} pairs, got {pair_count}")));
        }
        let device = pb::KernelDevice::try_from(request.device)
            .map_err(|_| ApiError::invalid("device", format!("expected a device, got {}", request.device)))?;
        Ok(Self {
            plan: plan(request)?,
            ratios: ratios(request)?,
            targets: targets(&request.targets)?,
            device,
            first_index,
            pair_count,
        })
    }
}

fn plan(request: &pb::GenerateDatasetRequest) -> Result<Plan, ApiError> {
    let dialects = match request.dialects.as_slice() {
        [] => vec![Dialect::Warp, Dialect::Python],
        named => named.iter().enumerate().map(|(nth, number)| dialect_of(nth, *number)).collect::<Result<_, _>>()?,
    };
    let categories = match request.categories.as_slice() {
        [] => Category::ALL.into_iter().filter(|of| dialects.iter().any(|dialect| of.has(*dialect))).collect(),
        named => {
            named.iter().enumerate().map(|(nth, number)| category_of(nth, *number)).collect::<Result<Vec<_>, _>>()?
        }
    };
    Plan::new(request.seed, &categories, &dialects).map_err(|error| match error {
        PlanError::Categories => ApiError::invalid("categories", "expected each category once"),
        PlanError::Dialects => ApiError::invalid("dialects", "expected each dialect once"),
        PlanError::NoKernels(category) => {
            let reason = format!("expected a category that one of the dialects has, got {}", category.name());
            ApiError::invalid("categories", reason)
        }
    })
}

fn dialect_of(nth: usize, number: i32) -> Result<Dialect, ApiError> {
    let field = format!("dialects[{nth}]");
    let reason = || format!("expected a dialect, got {number}");
    kernels::dialect(&field, number)?.ok_or_else(|| ApiError::invalid(&field, reason()))
}

fn category_of(nth: usize, number: i32) -> Result<Category, ApiError> {
    let mut all = Category::ALL.into_iter();
    all.find(|of| i32::from(category(*of)) == number)
        .ok_or_else(|| ApiError::invalid(format!("categories[{nth}]"), format!("expected a category, got {number}")))
}

fn ratios(request: &pb::GenerateDatasetRequest) -> Result<Ratios, ApiError> {
    let validation = request.validation_percent.unwrap_or(DEFAULT_PERCENT);
    let test = request.test_percent.unwrap_or(DEFAULT_PERCENT);
    if u64::from(validation) + u64::from(test) > 100 {
        let reason = format!("expected at most 100 percent with validation_percent, got {validation} and {test}");
        return Err(ApiError::invalid("test_percent", reason));
    }
    let percent = |of| u8::try_from(of).expect("at most 100");
    Ok(Ratios { validation: percent(validation), test: percent(test) })
}

/// The category in a message.
pub(super) fn category(of: Category) -> pb::DatasetCategory {
    match of {
        Category::Arithmetic => pb::DatasetCategory::Arithmetic,
        Category::Vector => pb::DatasetCategory::Vector,
        Category::Matrix => pb::DatasetCategory::Matrix,
        Category::ControlFlow => pb::DatasetCategory::ControlFlow,
        Category::Math => pb::DatasetCategory::Math,
        Category::Atomic => pb::DatasetCategory::Atomic,
        Category::NestedLoop => pb::DatasetCategory::NestedLoop,
        Category::MultiConditional => pb::DatasetCategory::MultiConditional,
        Category::Combined => pb::DatasetCategory::Combined,
        Category::ScalarParam => pb::DatasetCategory::ScalarParam,
        Category::Stencil => pb::DatasetCategory::Stencil,
        Category::Bitwise => pb::DatasetCategory::Bitwise,
    }
}

pub(super) fn split(of: Split) -> pb::DatasetSplit {
    match of {
        Split::Train => pb::DatasetSplit::Train,
        Split::Validation => pb::DatasetSplit::Validation,
        Split::Test => pb::DatasetSplit::Test,
    }
}
