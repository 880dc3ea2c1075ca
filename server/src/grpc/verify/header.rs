//! Headers and chunks of verifications as messages.

use std::collections::BTreeMap;

use accelerd_proto::v1::{
    self as pb,
    input_domain::{Lower, Upper},
    verify_header::{Reference, Subject},
    verify_request::Part,
};
use accelerd_sandbox::{Isolation, ScalarType};
use accelerd_verify::{Bound, Domain};
use prost::Message;

use super::policy::policies;
use crate::{
    error::ApiError,
    grpc::{convert, dtype::dtype_from_proto, kernel, tensor_value::sources},
    kernels::launch::KernelDevice,
    verification::{
        chunks::Chunk,
        generated::{CaseGenerator, InputDomain},
        header::{StatedLimits, VerificationRequest},
        outcome::OutcomePolicy,
        sides::StatedSide,
        wasm::{Passing, StatedWasm, WasmParam, WasmResult, scalar_type},
    },
};

/// Returns the verification that a header describes.
pub(super) fn verification_request(header: pb::VerifyHeader) -> Result<VerificationRequest, ApiError> {
    Ok(VerificationRequest {
        policies: policies(header.policy, header.output_policies)?,
        max_mismatches: header.max_mismatches,
        max_counterexamples: header.max_counterexamples,
        device: kernel::device("header.device", header.device)?.unwrap_or(KernelDevice::Cpu),
        outcome_policy: outcome_policy(header.outcome_policy)?,
        limits: header.limits.map(limits).unwrap_or_default(),
        subject: subject(header.subject)?,
        reference: reference(header.reference)?,
        expected_outcome: header.expected_outcome,
        generator: header.generator.map(generator),
        case_verdicts: header.case_verdicts,
        skip_shrinking: header.skip_shrinking,
        check_determinism: header.check_determinism,
    })
}

/// The chunk of a message after the first one.
pub(super) fn chunk(request: pb::VerifyRequest) -> Result<Chunk, ApiError> {
    let cases = match request.part {
        Some(Part::Cases(cases)) => cases,
        Some(Part::Header(_)) => {
            return Err(ApiError::invalid("header", "expected a header in the first message only"));
        }
        None => return Err(ApiError::invalid("cases", "expected cases, got none")),
    };
    let bytes = cases.encoded_len();
    let pb::VerifyCases { actual, expected, inputs, expected_outcomes } = cases;
    Ok(Chunk {
        actual: sources("cases.actual", actual)?,
        expected: sources("cases.expected", expected)?,
        inputs: sources("cases.inputs", inputs)?,
        expected_outcomes,
        bytes,
    })
}

fn outcome_policy(policy: i32) -> Result<OutcomePolicy, ApiError> {
    match pb::OutcomePolicy::try_from(policy) {
        Ok(pb::OutcomePolicy::Unspecified | pb::OutcomePolicy::BothOrNeither) => Ok(OutcomePolicy::BothOrNeither),
        Ok(pb::OutcomePolicy::ReferenceDefines) => Ok(OutcomePolicy::ReferenceDefines),
        Ok(pb::OutcomePolicy::ResultRequired) => Ok(OutcomePolicy::ResultRequired),
        Err(_) => {
            let reason = format!("expected a number that the enum has, got {policy}");
            Err(ApiError::invalid("header.outcome_policy", reason))
        }
    }
}

fn limits(limits: pb::CaseLimits) -> StatedLimits {
    let pb::CaseLimits { timeout, fuel, memory_bytes, loop_budget } = limits;
    StatedLimits { timeout: timeout.map(convert::time), fuel, memory_bytes, loop_budget }
}

fn subject(subject: Option<Subject>) -> Result<StatedSide, ApiError> {
    match subject {
        Some(Subject::GivenOutputs(pb::GivenOutputs {})) => Ok(StatedSide::Given),
        Some(Subject::Kernel(program)) => Ok(StatedSide::Kernel(kernel::program("header.kernel", program)?)),
        Some(Subject::Wasm(function)) => Ok(StatedSide::Wasm(wasm_function("header.wasm", function)?)),
        None => Err(ApiError::invalid("header.given_outputs", "expected a subject, got none")),
    }
}

fn reference(reference: Option<Reference>) -> Result<StatedSide, ApiError> {
    match reference {
        Some(Reference::ExpectedOutputs(pb::GivenOutputs {})) => Ok(StatedSide::Given),
        Some(Reference::ReferenceKernel(program)) => {
            Ok(StatedSide::Kernel(kernel::program("header.reference_kernel", program)?))
        }
        Some(Reference::ReferenceWasm(function)) => {
            Ok(StatedSide::Wasm(wasm_function("header.reference_wasm", function)?))
        }
        None => Err(ApiError::invalid("header.expected_outputs", "expected a reference, got none")),
    }
}

fn wasm_function(field: &str, function: pb::WasmFunction) -> Result<StatedWasm, ApiError> {
    let pb::WasmFunction { module, function, params, results, share_instance } = function;
    let param = |(nth, param)| wasm_param(&format!("{field}.params[{nth}]"), param);
    let result = |(nth, pb::WasmResult { name, dtype })| {
        let ty = wasm_type(&format!("{field}.results[{nth}]"), dtype)?;
        Ok(WasmResult { name, ty })
    };
    Ok(StatedWasm {
        module,
        function,
        params: params.into_iter().enumerate().map(param).collect::<Result<_, _>>()?,
        results: results.into_iter().enumerate().map(result).collect::<Result<_, ApiError>>()?,
        isolation: if share_instance { Isolation::Reused } else { Isolation::Fresh },
    })
}

fn wasm_param(field: &str, param: pb::WasmParam) -> Result<WasmParam, ApiError> {
    let pb::WasmParam { name, length, dtype, kind, address_only } = param;
    let ty = wasm_type(field, dtype)?;
    let kind = pb::WasmParamKind::try_from(kind).map_err(|_| {
        ApiError::invalid(format!("{field}.kind"), format!("expected a number that the enum has, got {kind}"))
    })?;
    let passing = match kind {
        pb::WasmParamKind::Unspecified | pb::WasmParamKind::Value => Passing::Value,
        pb::WasmParamKind::Input => Passing::Input((length > 0).then_some(length)),
        pb::WasmParamKind::Output => Passing::Output(length),
        pb::WasmParamKind::InOut => Passing::InOut(length),
    };
    if address_only && passing == Passing::Value {
        return Err(ApiError::invalid(format!("{field}.address_only"), "expected false, for a value has no address"));
    }
    Ok(WasmParam { name, ty, passing, address_only })
}

fn wasm_type(field: &str, number: i32) -> Result<ScalarType, ApiError> {
    let dtype = pb::Dtype::try_from(number).ok();
    let unsupported = || {
        let got = dtype.map_or_else(|| number.to_string(), |dtype| dtype.as_str_name().to_owned());
        ApiError::invalid(format!("{field}.dtype"), format!("expected an integer type, bool, f32 or f64, got {got}"))
    };
    dtype.and_then(dtype_from_proto).and_then(scalar_type).ok_or_else(unsupported)
}

fn generator(generator: pb::CaseGenerator) -> CaseGenerator {
    let pb::CaseGenerator { case_count, seed, domains } = generator;
    let domains: BTreeMap<_, _> = domains.into_iter().map(|(name, domain)| (name, input_domain(domain))).collect();
    CaseGenerator { case_count, seed, domains }
}

fn input_domain(domain: pb::InputDomain) -> InputDomain {
    let pb::InputDomain { lower, upper, allow_nan, allow_infinity, length } = domain;
    let lower = lower.map(|bound| match bound {
        Lower::Min(bound) => Bound::Float(bound),
        Lower::MinInteger(bound) => Bound::Integer(bound),
    });
    let upper = upper.map(|bound| match bound {
        Upper::Max(bound) => Bound::Float(bound),
        Upper::MaxInteger(bound) => Bound::Integer(bound),
    });
    InputDomain { domain: Domain { lower, upper, allow_nan, allow_infinity }, length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_webassembly_does_not_have_is_refused_with_its_field() {
        for (dtype, got) in [(pb::Dtype::F16.into(), "DTYPE_F16"), (0, "DTYPE_UNSPECIFIED"), (99, "99")] {
            let param = pb::WasmParam { name: "x".to_owned(), dtype, ..Default::default() };
            let function = pb::WasmFunction { params: vec![param], ..Default::default() };
            let refused = wasm_function("wasm", function).expect_err("it has no such type").to_string();
            let expected = "expected an integer type, bool, f32 or f64";
            assert_eq!(refused, format!("wasm.params[0].dtype: {expected}, got {got}"));
        }
    }
}
