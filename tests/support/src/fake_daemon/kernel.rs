//! Toy kernels. Translations have a kernel named by the first name or `f`, whose only file has the source, and a diagnostic for each further
//! name. A compiled kernel has the parameters of the first `def` of its source: `array` of f32, `float` for f32, `int` for i32 and `vec` for
//! three f32. A data set has every kernel twice. A launch fills its outputs with `a * x + n`, or has a fault if the source contains the word. In a benchmark a run takes 2 ms,
//! and the results are wrong if the reference contains the word.

use accelerd_proto::v1::{
    self as proto, Dtype, kernel_service_server::KernelService, launch_request::Kernel as Launched,
    tensor_input::Source,
};
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::{FakeDaemon, Replies, Reply};

#[tonic::async_trait]
impl KernelService for FakeDaemon {
    async fn translate(
        &self,
        request: Request<proto::TranslateRequest>,
    ) -> Result<Response<proto::TranslateResponse>, Status> {
        let proto::TranslateRequest { source, constants, mut names, targets, .. } = request.into_inner();
        let others = names.split_off(names.len().min(1));
        let name = names.pop().unwrap_or_else(|| "f".to_owned());
        let text = format!("{source}{constants:?}{targets:?}");
        let component = proto::KernelComponent { dtype: proto::Dtype::F32.into(), ..Default::default() };
        let param = |name: &str, dims| proto::KernelParam {
            name: name.to_owned(),
            dims,
            components: vec![component.clone()],
            element_size_bytes: 4,
        };
        let kernel = proto::TranslatedKernel {
            name: name.clone(),
            grid_dims: 1,
            params: vec![param("a", 0), param("x", 2)],
            bit_exact: true,
            files: vec![proto::KernelFile { name: format!("{name}.cu"), content: text.into_bytes().into() }],
        };
        let diagnostic = |kernel: String| proto::KernelDiagnostic {
            kernel,
            code: "unsupported_statement".to_owned(),
            message: "expected less".to_owned(),
            line: 3,
            column: 4,
        };
        let diagnostics = others.into_iter().map(diagnostic).collect();
        Ok(Response::new(proto::TranslateResponse { kernels: vec![kernel], diagnostics }))
    }
    async fn compile(&self, request: Request<proto::CompileRequest>) -> Reply<proto::CompileResponse> {
        self.enter("Compile").await?;
        let kernel = self.compiled(&request.into_inner().program.unwrap_or_default())?;
        Ok(Response::new(proto::CompileResponse { kernel: Some(kernel), cuda: None }))
    }

    async fn launch(&self, request: Request<proto::LaunchRequest>) -> Reply<proto::LaunchResponse> {
        self.enter("Launch").await?;
        let request = request.into_inner();
        self.state().launches.push(request.clone());
        let kernel = match &request.kernel {
            Some(Launched::KernelId(id)) => self.kept(id)?,
            Some(Launched::Program(program)) => self.compiled(program)?,
            None => return Err(Status::invalid_argument("no kernel")),
        };
        let has_fault = self.state().kernels.iter().any(|(kept, source)| *kept == kernel && source.contains("fault"));
        Ok(Response::new(proto::LaunchResponse {
            outputs: if has_fault { vec![] } else { outputs(&kernel, &request) },
            fault: has_fault.then(fault),
            execution_time: Some(prost_types::Duration { seconds: 0, nanos: 2_000_000 }),
            device: request.device,
        }))
    }

    async fn benchmark(&self, request: Request<proto::BenchmarkRequest>) -> Reply<proto::BenchmarkResponse> {
        self.enter("Benchmark").await?;
        let request = request.into_inner();
        let launch = self.launch(Request::new(request.launch.clone().unwrap_or_default())).await?.into_inner();
        let is_wrong = request.reference.as_ref().is_some_and(|reference| reference.source.contains("wrong"));
        let mismatch =
            proto::BenchmarkMismatch { output: "y".to_owned(), failed_count: 1, actual: 1.0, ..Default::default() };
        let verdict = match (&launch.fault, is_wrong) {
            (Some(_), _) => proto::BenchmarkVerdict::Fault,
            (None, true) => proto::BenchmarkVerdict::Mismatch,
            (None, false) => proto::BenchmarkVerdict::Passed,
        };
        let time = launch.execution_time;
        self.state().kernel_benchmarks.push(request.clone());
        Ok(Response::new(proto::BenchmarkResponse {
            verdict: verdict.into(),
            run_times: vec![time.unwrap_or_default(); request.run_count() as usize],
            median_time: time,
            p10_time: time,
            p90_time: time,
            thread_count: 4000,
            array_bytes: 32_000,
            threads_per_second: 2e6,
            bytes_per_second: 16e6,
            min_time: Some(prost_types::Duration { seconds: 0, nanos: 1000 }),
            mismatches: if is_wrong { vec![mismatch] } else { vec![] },
            fault: launch.fault,
            device: launch.device,
            small_outputs: vec![],
        }))
    }

    /// The verdict is that of a word of the source: `wrong` and `invalid`.
    async fn evaluate(&self, request: Request<proto::EvaluateRequest>) -> Reply<proto::EvaluateResponse> {
        self.enter("Evaluate").await?;
        let request = request.into_inner();
        let source = request.subject.clone().unwrap_or_default().source;
        let time = prost_types::Duration { seconds: 0, nanos: 3_000_000 };
        let passed = proto::EvaluateResponse {
            verdict: proto::EvaluationVerdict::Passed.into(),
            resources: Some(proto::CudaResources { registers: 16, ..Default::default() }),
            run_times: vec![time; request.run_count.unwrap_or(20) as usize],
            median_time: Some(time),
            p10_time: Some(time),
            p90_time: Some(time),
            bit_exact_repeat: true,
            array_bytes: 32,
            arch: "sm_90".to_owned(),
            ..Default::default()
        };
        let mismatch =
            proto::BenchmarkMismatch { output: "y".to_owned(), failed_count: 1, actual: 1.0, ..Default::default() };
        self.state().evaluations.push(request);
        Ok(Response::new(if source.contains("invalid") {
            proto::EvaluateResponse {
                verdict: proto::EvaluationVerdict::CompileError.into(),
                message: "the source does not compile".to_owned(),
                compiler_log: "kernel.cu(1): error: invalid".to_owned(),
                ..Default::default()
            }
        } else if source.contains("wrong") {
            proto::EvaluateResponse {
                verdict: proto::EvaluationVerdict::Mismatch.into(),
                message: "1 elements of \"y\" differ".to_owned(),
                run: Some(3),
                param: "y".to_owned(),
                mismatches: vec![mismatch],
                ..passed
            }
        } else {
            passed
        }))
    }

    async fn generate_dataset(
        &self,
        request: Request<proto::GenerateDatasetRequest>,
    ) -> Reply<Replies<proto::GenerateDatasetResponse>> {
        self.enter("GenerateDataset").await?;
        let proto::GenerateDatasetRequest { pair_count, seed, first_index, .. } = request.into_inner();
        let drained_at = self.state().drained_pairs.pop_front();
        let responses = (first_index..first_index + pair_count).map(move |index| match drained_at {
            Some(at) if index >= at => Err(Status::unavailable("draining")),
            _ => Ok(proto::GenerateDatasetResponse { pair: Some(pair(seed, index)) }),
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(responses))))
    }

    async fn list_kernels(&self, _request: Request<proto::ListKernelsRequest>) -> Reply<proto::ListKernelsResponse> {
        self.enter("ListKernels").await?;
        let kernels = self.state().kernels.iter().map(|(kernel, _)| kernel.clone()).collect();
        Ok(Response::new(proto::ListKernelsResponse { kernels }))
    }

    async fn evict_kernel(&self, request: Request<proto::EvictKernelRequest>) -> Reply<proto::EvictKernelResponse> {
        self.enter("EvictKernel").await?;
        let id = self.kept(&request.into_inner().kernel_id)?.id;
        self.state().kernels.retain(|(kernel, _)| kernel.id != id);
        Ok(Response::new(proto::EvictKernelResponse {}))
    }
}

impl FakeDaemon {
    fn kept(&self, id: &str) -> Result<proto::Kernel, Status> {
        let found = self.state().kernels.iter().find(|(kernel, _)| kernel.id == id).map(|(kernel, _)| kernel.clone());
        found.ok_or_else(|| {
            let details = ErrorDetails::with_resource_info("kernel", id, "", "does not exist");
            Status::with_error_details(Code::NotFound, format!("kernel {id:?} does not exist"), details)
        })
    }

    fn compiled(&self, program: &proto::KernelProgram) -> Result<proto::Kernel, Status> {
        let Some((name, params)) = definition(&program.source) else {
            let details =
                ErrorDetails::with_bad_request_violation("program.source", "1:0: no_kernel: expected a kernel");
            return Err(Status::with_error_details(Code::InvalidArgument, "program.source: no kernel", details));
        };
        let params: Vec<_> = params.split(',').filter_map(|param| parameter(param.trim())).collect();
        let arrays = params.iter().filter(|param| param.dims > 0 && param.name.starts_with('y'));
        let mut written: Vec<_> = arrays.map(|param| param.name.clone()).collect();
        if written.is_empty() {
            written.push("result".to_owned());
        }
        let kernel = proto::Kernel {
            // Programs of different lengths have different ids.
            id: format!("{:064x}", program.source.len()),
            name: name.to_owned(),
            dialect: proto::KernelDialect::Warp.into(),
            grid_dims: 1,
            params,
            written_arrays: written,
            bit_exact: true,
            size_bytes: 1000,
        };
        let mut state = self.state();
        state.kernels.retain(|(kept, _)| kept.id != kernel.id);
        state.kernels.insert(0, (kernel.clone(), program.source.clone()));
        Ok(kernel)
    }
}

/// Name and parameters of the first function.
fn definition(source: &str) -> Option<(&str, &str)> {
    let (name, rest) = source.split_once("def ")?.1.split_once('(')?;
    Some((name, rest.split_once(')')?.0))
}

fn parameter(text: &str) -> Option<proto::KernelParam> {
    let (name, kind) = text.split_once(": ")?;
    let (dims, dtype, components) = match kind {
        "array" => (1, Dtype::F32, 1),
        "float" => (0, Dtype::F32, 1),
        "vec" => (0, Dtype::F32, 3),
        _ => (0, Dtype::I32, 1),
    };
    let component =
        |nth: u32| proto::KernelComponent { name: String::new(), dtype: dtype.into(), offset_bytes: 4 * nth };
    let components = (0..components).map(component).collect();
    Some(proto::KernelParam { name: name.to_owned(), dims, components, element_size_bytes: 4 })
}

fn outputs(kernel: &proto::Kernel, request: &proto::LaunchRequest) -> Vec<proto::NamedTensor> {
    let value = |name: &str| match request.arguments.iter().find(|argument| argument.name == name)?.source.as_ref()? {
        Source::Value(tensor) => Some(tensor),
        Source::Handle(_) => None,
    };
    let numbers = |name: &str| -> Vec<f32> {
        let (numbers, _) = value(name).map(|tensor| tensor.data.as_chunks::<4>()).unwrap_or_default();
        numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    let a = numbers("a").first().copied().unwrap_or(1.0);
    let n = numbers("n").first().map_or(0.0, |bits| bits.to_bits() as f32);
    let results: Vec<f32> = numbers("x").iter().map(|x| a * x + n).collect();
    let output = |output: proto::KernelOutput| {
        let extents = value("x").map(|x| x.shape.clone()).unwrap_or_default();
        let shape = if output.shape.is_empty() { extents } else { output.shape };
        let count = usize::try_from(shape.iter().product::<i64>()).unwrap_or(0);
        let data: Vec<u8> = results.iter().cycle().take(count).flat_map(|number| number.to_le_bytes()).collect();
        let value = proto::Tensor { dtype: Dtype::F32.into(), shape, data: data.into() };
        proto::NamedTensor { name: output.name, value: Some(value) }
    };
    let all = || kernel.written_arrays.iter().map(|name| proto::KernelOutput { name: name.clone(), shape: vec![] });
    let requested = if request.outputs.is_empty() { all().collect() } else { request.outputs.clone() };
    requested.into_iter().map(output).collect()
}

/// A pair whose kernel is that of the index without its last bit, in the part of the same number. Every tenth result is wrong.
fn pair(seed: u64, index: u64) -> proto::DatasetPair {
    let name = format!("math_{index}");
    let kernel = index & !1;
    let agreement = if index % 10 == 4 { proto::DatasetAgreement::Different } else { proto::DatasetAgreement::Equal };
    let run = proto::DatasetRun {
        device: proto::KernelDevice::Cpu.into(),
        agreement: agreement.into(),
        element_count: 64,
        different_count: u64::from(agreement == proto::DatasetAgreement::Different),
        execution_time: Some(prost_types::Duration { seconds: 0, nanos: 2_000 }),
        ..Default::default()
    };
    let file = |name: String, content: &'static [u8]| proto::KernelFile { name, content: content.into() };
    proto::DatasetPair {
        index,
        id: format!("{seed:032x}{kernel:032x}"),
        structure_id: format!("{kernel:064x}"),
        split: [proto::DatasetSplit::Train, proto::DatasetSplit::Validation, proto::DatasetSplit::Test]
            [usize::try_from(kernel / 2 % 3).unwrap_or_default()]
        .into(),
        category: proto::DatasetCategory::Math.into(),
        dialect: proto::KernelDialect::Python.into(),
        source: format!("def {name}(x: float) -> float:\n    return x * {kernel}.0\n"),
        files: vec![file(format!("{name}.cu"), b"// CUDA C++\n"), file(format!("{name}.wasm"), b"\0asm\x01\0\0\0")],
        bit_exact: true,
        runs: vec![run],
        name,
    }
}

fn fault() -> proto::KernelFault {
    proto::KernelFault {
        kind: proto::KernelFaultKind::OutOfBounds.into(),
        thread: 7,
        line: 3,
        column: 4,
        array: "x".to_owned(),
        dimension: 0,
        index: 10,
        extent: 8,
        variable: String::new(),
    }
}
