//! Data sets of kernels as messages.

use accelerd_dataset::{Category, Dialect, Source, Split};
use accelerd_proto::v1 as pb;

use super::{
    describe,
    launch::{device, device_to_proto, duration},
    program,
};
use crate::{
    error::ApiError,
    kernels::dataset::{DatasetRequest, DatasetRun, Pair, RunVerdict},
    status::bounded_message,
};

pub(super) fn dataset_request(request: &pb::GenerateDatasetRequest) -> Result<DatasetRequest, ApiError> {
    let dialects = request.dialects.iter().enumerate().map(dialect).collect::<Result<_, _>>()?;
    Ok(DatasetRequest {
        pair_count: request.pair_count,
        seed: request.seed,
        device: device("device", request.device)?,
        dialects,
        categories: request.categories.iter().enumerate().map(category_of).collect::<Result<_, _>>()?,
        first_index: request.first_index,
        validation_percent: request.validation_percent,
        test_percent: request.test_percent,
        targets: program::targets(&request.targets)?,
    })
}

fn dialect((nth, number): (usize, &i32)) -> Result<Dialect, ApiError> {
    let field = format!("dialects[{nth}]");
    let reason = || format!("expected a dialect, got {number}");
    program::dialect(&field, *number)?.ok_or_else(|| ApiError::invalid(&field, reason()))
}

fn category_of((nth, number): (usize, &i32)) -> Result<Category, ApiError> {
    let mut all = Category::ALL.into_iter();
    all.find(|of| i32::from(category(*of)) == *number)
        .ok_or_else(|| ApiError::invalid(format!("categories[{nth}]"), format!("expected a category, got {number}")))
}

/// A pair as a response.
pub(super) fn dataset_response(pair: Pair) -> pb::GenerateDatasetResponse {
    let Pair { source, files, bit_exact, runs } = pair;
    let Source { index, category: kind, dialect, name, text, identity, split: part } = source;
    let pair = pb::DatasetPair {
        index,
        id: hex::encode(identity.id),
        structure_id: hex::encode(identity.structure),
        split: split(part).into(),
        category: category(kind).into(),
        dialect: describe::dialect(dialect).into(),
        name,
        source: text,
        files: files.into_iter().map(describe::file).collect(),
        bit_exact,
        runs: runs.into_iter().map(run).collect(),
    };
    pb::GenerateDatasetResponse { pair: Some(pair) }
}

fn run(run: DatasetRun) -> pb::DatasetRun {
    let DatasetRun { device, verdict, agreement, execution_time, message } = run;
    let verdict = match verdict {
        RunVerdict::Equal => pb::DatasetAgreement::Equal,
        RunVerdict::Close => pb::DatasetAgreement::Close,
        RunVerdict::Different => pb::DatasetAgreement::Different,
        RunVerdict::Fault => pb::DatasetAgreement::Fault,
        RunVerdict::Failed => pb::DatasetAgreement::Failed,
    };
    pb::DatasetRun {
        device: device_to_proto(device).into(),
        agreement: verdict.into(),
        element_count: agreement.elements,
        different_count: agreement.different,
        max_ulp_error: agreement.max_ulps,
        execution_time: execution_time.map(duration),
        message: bounded_message(&message),
    }
}

/// The category in a message.
fn category(of: Category) -> pb::DatasetCategory {
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

fn split(of: Split) -> pb::DatasetSplit {
    match of {
        Split::Train => pb::DatasetSplit::Train,
        Split::Validation => pb::DatasetSplit::Validation,
        Split::Test => pb::DatasetSplit::Test,
    }
}
