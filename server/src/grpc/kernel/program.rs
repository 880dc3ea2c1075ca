//! Programs in messages: source, dialect, constants and targets.

use std::collections::BTreeMap;

use accelerd_kernels::ops::translate::{Captured, Dialect, Targets};
use accelerd_proto::v1::{self as pb, kernel_constant::Value};

use crate::{error::ApiError, kernels::Program};

/// The program that is at `field` of a request.
pub(in crate::grpc) fn program(field: &str, program: pb::KernelProgram) -> Result<Program, ApiError> {
    let pb::KernelProgram { source, dialect: number, constants: named, name } = program;
    let dialect = dialect(&format!("{field}.dialect"), number)?;
    Ok(Program { source, dialect, constants: constants(&format!("{field}.constants"), named)?, name })
}

/// `None` if the module decides.
pub(super) fn dialect(field: &str, number: i32) -> Result<Option<Dialect>, ApiError> {
    match pb::KernelDialect::try_from(number) {
        Ok(pb::KernelDialect::Unspecified) => Ok(None),
        Ok(pb::KernelDialect::Warp) => Ok(Some(Dialect::Warp)),
        Ok(pb::KernelDialect::Python) => Ok(Some(Dialect::Python)),
        Err(_) => Err(ApiError::invalid(field, format!("expected a dialect, got {number}"))),
    }
}

/// The constants that are at `field` of a request.
pub(super) fn constants(
    field: &str,
    constants: BTreeMap<String, pb::KernelConstant>,
) -> Result<BTreeMap<String, Captured>, ApiError> {
    let constant = |(name, constant): (String, pb::KernelConstant)| {
        let value = match constant.value {
            Some(Value::Integer(value)) => Captured::Int(value),
            Some(Value::Number(value)) => Captured::Float(value),
            Some(Value::Boolean(value)) => Captured::Bool(value),
            None => return Err(ApiError::invalid(format!("{field}[{name:?}]"), "expected a value, got none")),
        };
        Ok((name, value))
    };
    constants.into_iter().map(constant).collect()
}

/// Returns the files that a kernel is translated to.
pub(super) fn targets(requested: &[i32]) -> Result<Targets, ApiError> {
    if requested.is_empty() {
        return Ok(Targets::default());
    }
    let mut targets = Targets { cuda: false, wasm: false, device: false };
    for (nth, number) in requested.iter().enumerate() {
        match pb::KernelTarget::try_from(*number) {
            Ok(pb::KernelTarget::Cuda) => targets.cuda = true,
            Ok(pb::KernelTarget::Wasm) => targets.wasm = true,
            Ok(pb::KernelTarget::Ptx) => targets.device = true,
            Ok(pb::KernelTarget::Unspecified) | Err(_) => {
                return Err(ApiError::invalid(format!("targets[{nth}]"), format!("expected a target, got {number}")));
            }
        }
    }
    Ok(targets)
}
