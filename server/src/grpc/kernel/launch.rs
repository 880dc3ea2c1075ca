//! Launches and benchmarks of kernels as messages.

use std::time::Duration;

use accelerd_ir::kernel::FaultKind;
use accelerd_proto::v1::{self as pb, launch_request};

use super::program::program;
use crate::{
    error::ApiError,
    grpc::{
        small_output::small_output,
        tensor_value::{sources, value},
    },
    kernels::{
        arguments::{KernelOutput, KernelView},
        benchmark::{BenchmarkOptions, BenchmarkRequest, BenchmarkVerdict, Measured, OutputMismatch, percentiles},
        launch::{KernelDevice, KernelFault, KernelReference, LaunchRequest, Launched},
    },
    shown::List,
};

/// A launch, whose fields have a prefix.
pub(super) fn launch_request(prefix: &str, request: pb::LaunchRequest) -> Result<LaunchRequest, ApiError> {
    let pb::LaunchRequest { kernel, grid, arguments, views, outputs, loop_budget, device: number } = request;
    let kernel = match kernel {
        Some(launch_request::Kernel::KernelId(id)) => KernelReference::Id(id),
        Some(launch_request::Kernel::Program(of)) => {
            KernelReference::Program(program(&format!("{prefix}program"), of)?)
        }
        None => {
            let reason = "expected an id or a program, got neither";
            return Err(ApiError::invalid(format!("{prefix}kernel_id"), reason));
        }
    };
    let output = |(nth, pb::KernelOutput { name, shape })| {
        let shape = extents(&format!("outputs[{nth}].shape"), &shape)?;
        Ok(KernelOutput { name, shape })
    };
    let view = |(nth, view)| kernel_view(format!("{prefix}views[{nth}]"), view);
    Ok(LaunchRequest {
        kernel,
        device: device(&format!("{prefix}device"), number)?.unwrap_or(KernelDevice::Cpu),
        arguments: sources(&format!("{prefix}arguments"), arguments)?,
        views: views.into_iter().enumerate().map(view).collect::<Result<_, ApiError>>()?,
        outputs: outputs.into_iter().enumerate().map(output).collect::<Result<_, ApiError>>()?,
        grid: extents("grid", &grid)?,
        loop_budget,
    })
}

fn kernel_view(field: String, view: pb::KernelView) -> Result<KernelView, ApiError> {
    let pb::KernelView { name, argument, offset_bytes, shape, strides_bytes } = view;
    let shape = extents(&format!("{field}.shape"), &shape)?;
    Ok(KernelView { name, field, argument, offset_bytes, shape, strides_bytes })
}

/// Extents of an array or a grid.
pub(super) fn extents<T: TryFrom<i64>>(field: &str, extents: &[i64]) -> Result<Vec<T>, ApiError> {
    let numbers: Result<_, _> = extents.iter().map(|extent| T::try_from(*extent)).collect();
    numbers.map_err(|_| ApiError::invalid(field, format!("expected extents of at least 0, got {:?}", List(extents))))
}

/// Where a kernel runs, if a request says it.
pub(in crate::grpc) fn device(field: &str, number: i32) -> Result<Option<KernelDevice>, ApiError> {
    match pb::KernelDevice::try_from(number) {
        Ok(pb::KernelDevice::Unspecified) => Ok(None),
        Ok(pb::KernelDevice::Cpu) => Ok(Some(KernelDevice::Cpu)),
        Ok(pb::KernelDevice::Cuda) => Ok(Some(KernelDevice::Cuda)),
        Err(_) => Err(ApiError::invalid(field, format!("expected a device, got {number}"))),
    }
}

pub(super) fn device_to_proto(device: KernelDevice) -> pb::KernelDevice {
    match device {
        KernelDevice::Cpu => pb::KernelDevice::Cpu,
        KernelDevice::Cuda => pb::KernelDevice::Cuda,
    }
}

pub(super) fn benchmark_request(request: pb::BenchmarkRequest) -> Result<BenchmarkRequest, ApiError> {
    let pb::BenchmarkRequest { launch, reference, fixed_arguments, run_count, warm_up_count, atol, rtol } = request;
    Ok(BenchmarkRequest {
        launch: launch_request("launch.", launch.unwrap_or_default())?,
        reference: reference.map(|reference| program("reference", reference)).transpose()?,
        options: BenchmarkOptions { fixed_arguments, run_count, warm_up_count, atol, rtol },
    })
}

/// The response of a launch.
pub(super) fn launched(launched: Launched) -> pb::LaunchResponse {
    let Launched { outputs, execution_time, device } = launched;
    let (outputs, fault) = match outputs {
        Ok(outputs) => (outputs, None),
        Err(fault) => (vec![], Some(kernel_fault(&fault))),
    };
    let outputs = outputs
        .into_iter()
        .map(|(output, data)| pb::NamedTensor { name: output.name, value: Some(value(&output.of, data)) });
    pb::LaunchResponse {
        outputs: outputs.collect(),
        fault,
        execution_time: Some(duration(execution_time)),
        device: device_to_proto(device).into(),
    }
}

/// The response of a benchmark.
pub(super) fn measured(measured: &Measured) -> pb::BenchmarkResponse {
    let verdict = match measured.verdict() {
        BenchmarkVerdict::Passed => pb::BenchmarkVerdict::Passed,
        BenchmarkVerdict::Fault => pb::BenchmarkVerdict::Fault,
        BenchmarkVerdict::Mismatch => pb::BenchmarkVerdict::Mismatch,
        BenchmarkVerdict::ImplausibleTime => pb::BenchmarkVerdict::ImplausibleTime,
    };
    let times = percentiles(&measured.run_times).map(|times| times.map(duration));
    pb::BenchmarkResponse {
        verdict: verdict.into(),
        run_times: measured.run_times.iter().copied().map(duration).collect(),
        p10_time: times.map(|[p10, ..]| p10),
        median_time: times.map(|[_, median, _]| median),
        p90_time: times.map(|[.., p90]| p90),
        thread_count: measured.thread_count,
        array_bytes: measured.array_bytes,
        threads_per_second: measured.per_second(measured.thread_count).unwrap_or_default(),
        bytes_per_second: measured.per_second(measured.array_bytes).unwrap_or_default(),
        min_time: times.map(|_| duration(measured.min_time)),
        mismatches: measured.mismatches.iter().map(mismatch).collect(),
        small_outputs: measured.small_outputs.iter().map(small_output).collect(),
        fault: measured.fault.as_ref().map(kernel_fault),
        device: device_to_proto(measured.device).into(),
    }
}

pub(super) fn mismatch(mismatch: &OutputMismatch) -> pb::BenchmarkMismatch {
    let OutputMismatch { output, run, failed_count, index, actual, expected } = mismatch;
    pb::BenchmarkMismatch {
        output: output.clone(),
        run: *run,
        failed_count: *failed_count,
        index: *index,
        actual: *actual,
        expected: *expected,
    }
}

pub(super) fn duration(time: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(time).unwrap_or_default()
}

fn kernel_fault(of: &KernelFault) -> pb::KernelFault {
    let fault = &of.fault;
    let kind = match fault.kind {
        FaultKind::OutOfBounds => pb::KernelFaultKind::OutOfBounds,
        FaultKind::DivisionByZero => pb::KernelFaultKind::DivisionByZero,
        FaultKind::Assertion => pb::KernelFaultKind::Assertion,
        FaultKind::InvalidValue => pb::KernelFaultKind::InvalidValue,
        FaultKind::BudgetExhausted => pb::KernelFaultKind::LoopBudget,
    };
    let mut described = pb::KernelFault {
        kind: kind.into(),
        thread: of.thread,
        line: of.line(),
        column: fault.site.map_or(0, |site| site.column),
        variable: fault.unassigned.clone().unwrap_or_default(),
        ..pb::KernelFault::default()
    };
    if let Some(access) = &fault.access {
        described.array.clone_from(&access.array);
        described.dimension = access.axis.into();
        described.index = access.index;
        described.extent = access.extent.into();
    }
    described
}
