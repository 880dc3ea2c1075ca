//! Evaluations of kernels in CUDA C++ as messages.

use accelerd_proto::v1::{self as pb, evaluate_request::Expectation};

use super::{
    describe::resources,
    launch::{duration, extents, mismatch},
    program::program,
};
use crate::{
    error::ApiError,
    grpc::{
        convert,
        small_output::small_output,
        tensor_value::{inline, sources, tensor_type},
    },
    kernels::{
        benchmark::percentiles,
        evaluate::{CudaParam, CudaSubject, EvaluationRequest, Expected, Judgement, ParamKind, Verdict},
    },
    status::bounded_message,
};

pub(super) fn evaluation_request(request: pb::EvaluateRequest) -> Result<EvaluationRequest, ApiError> {
    Ok(EvaluationRequest {
        arguments: sources("arguments", request.arguments)?,
        subject: subject(request.subject.unwrap_or_default())?,
        expected: expected(request.expectation)?,
        fixed_arguments: request.fixed_arguments,
        run_count: request.run_count,
        warm_up_count: request.warm_up_count,
        atol: request.atol,
        rtol: request.rtol,
        timeout: request.launch_timeout.map(convert::time),
    })
}

fn subject(subject: pb::CudaSubject) -> Result<CudaSubject, ApiError> {
    let pb::CudaSubject { source, entry, params, grid, block, dynamic_shared_memory_bytes } = subject;
    let params = params.into_iter().enumerate().map(param).collect::<Result<_, _>>()?;
    Ok(CudaSubject { source, entry, params, grid, block, dynamic_shared_bytes: dynamic_shared_memory_bytes })
}

fn param((nth, param): (usize, pb::CudaParam)) -> Result<CudaParam, ApiError> {
    let field = format!("subject.params[{nth}]");
    let kind = match param.kind() {
        pb::CudaParamKind::Value => ParamKind::Value,
        pb::CudaParamKind::Input => ParamKind::Input,
        pb::CudaParamKind::Output => ParamKind::Output,
        pb::CudaParamKind::InputOutput => ParamKind::InputOutput,
        pb::CudaParamKind::Unspecified => {
            return Err(ApiError::invalid(format!("{field}.kind"), format!("expected a kind, got {}", param.kind)));
        }
    };
    Ok(CudaParam { of: tensor_type(&field, param.dtype, &param.shape)?, name: param.name, kind })
}

fn expected(expectation: Option<Expectation>) -> Result<Expected, ApiError> {
    match expectation {
        Some(Expectation::Reference(pb::EvaluationReference { program: reference, grid })) => {
            let field = "reference.program";
            let reference = reference.ok_or_else(|| ApiError::invalid(field, "expected a program, got none"))?;
            Ok(Expected::Program(program(field, reference)?, extents("reference.grid", &grid)?))
        }
        Some(Expectation::Expected(pb::ExpectedOutputs { outputs })) => {
            let output = |(nth, output): (usize, pb::NamedTensor)| {
                let field = format!("expected.outputs[{nth}].value");
                let (of, data) = inline(&field, output.value.unwrap_or_default())?;
                Ok((output.name, of, data))
            };
            Ok(Expected::Outputs(outputs.into_iter().enumerate().map(output).collect::<Result<_, ApiError>>()?))
        }
        None => Err(ApiError::invalid("reference", "expected a reference or expected outputs, got neither")),
    }
}

/// The response of an evaluation.
pub(super) fn judgement(judgement: Judgement) -> pb::EvaluateResponse {
    let times = percentiles(&judgement.run_times).map(|times| times.map(duration));
    pb::EvaluateResponse {
        verdict: verdict(judgement.verdict).into(),
        message: bounded_message(&judgement.message),
        compiler_log: judgement.compiler_log,
        run: judgement.run,
        param: judgement.param,
        resources: judgement.resources.map(resources),
        run_times: judgement.run_times.iter().copied().map(duration).collect(),
        p10_time: times.map(|[p10, ..]| p10),
        median_time: times.map(|[_, median, _]| median),
        p90_time: times.map(|[.., p90]| p90),
        min_time: times.map(|_| duration(judgement.min_time)),
        mismatches: judgement.mismatches.iter().map(mismatch).collect(),
        small_outputs: judgement.small_outputs.iter().map(small_output).collect(),
        bit_exact_repeat: judgement.bit_exact_repeat,
        array_bytes: judgement.array_bytes,
        arch: judgement.arch,
    }
}

fn verdict(verdict: Verdict) -> pb::EvaluationVerdict {
    match verdict {
        Verdict::Passed => pb::EvaluationVerdict::Passed,
        Verdict::CompileError => pb::EvaluationVerdict::CompileError,
        Verdict::NotLaunched => pb::EvaluationVerdict::NotLaunched,
        Verdict::Fault => pb::EvaluationVerdict::Fault,
        Verdict::Timeout => pb::EvaluationVerdict::Timeout,
        Verdict::Mismatch => pb::EvaluationVerdict::Mismatch,
        Verdict::OutOfBoundsWrite => pb::EvaluationVerdict::OutOfBoundsWrite,
        Verdict::InputChanged => pb::EvaluationVerdict::InputChanged,
        Verdict::Nondeterministic => pb::EvaluationVerdict::Nondeterministic,
        Verdict::ImplausibleTime => pb::EvaluationVerdict::ImplausibleTime,
    }
}
