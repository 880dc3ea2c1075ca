//! Pairs of kernels and their translations: random sources are translated, and run on an example wherever kernels run.

mod agreement;
mod request;

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use accelerd_dataset::{Plan, Source};
use accelerd_engine::Context;
use accelerd_ir::kernel::{
    Argument,
    cuda::{DeviceCode, Example},
    wasm::{ImageArgument, ImageError, MemoryImage},
};
use accelerd_kernels::{
    cuda::Arch,
    ops::translate::{File, Request as TranslationRequest, Targets, Translated},
};
use accelerd_sandbox::{CudaCode, Module, SandboxError};
use accelerd_tensor::{Dtype, TensorType};
use bytes::Bytes;
use futures::{
    FutureExt, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};

pub(crate) use self::{
    agreement::{Agreement, RunVerdict},
    request::DatasetRequest,
};
use super::{
    CompiledKernel, MAX_QUICK_COMPILERS,
    arguments::{BoundLaunch, BoundOutput},
    is_module,
    launch::{KernelDevice, Launcher, Target},
    ptx_files::ptx_files,
};
use crate::{error::ApiError, ledger::RequestMemory, sandbox::Turns};

/// Kernels that are made together.
const CHUNK: usize = 32;
/// Of these, how many are written, translated or run at once: a call leaves room for others.
const AT_ONCE: usize = 4;
/// Host memory of a kernel of a chunk: source, files, arguments and results.
const PAIR_BYTES: u64 = 256 << 10;
/// Host memory of an identity that is known.
const KNOWN_BYTES: u64 = 64;
/// Kernels in a row without a pair after which the sequence has no more.
const MAX_MISSES: u64 = 1_000;

/// A kernel and its translation.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) source: Source,
    pub(crate) files: Vec<File>,
    /// True if all targets compute the same bits.
    pub(crate) bit_exact: bool,
    pub(crate) runs: Vec<DatasetRun>,
}

/// A run of the example of a kernel.
#[derive(Debug)]
pub(crate) struct DatasetRun {
    pub(crate) device: KernelDevice,
    pub(crate) verdict: RunVerdict,
    pub(crate) agreement: Agreement,
    /// `None` if it did not run.
    pub(crate) execution_time: Option<Duration>,
    /// Why it has no results.
    pub(crate) message: String,
}

/// A call.
struct Dataset {
    launcher: Launcher,
    context: Context,
    plan: Plan,
    /// Files of a pair.
    targets: Targets,
    device: Option<KernelDevice>,
    /// The next kernel of the plan.
    index: u64,
    /// Pairs that are still to be made.
    left: u64,
    /// Kernels since the last pair.
    misses: u64,
    /// Identities of earlier pairs.
    known: HashSet<[u8; 32]>,
    ready: VecDeque<Pair>,
    _memory: RequestMemory,
}

/// A kernel, its translation and its example.
struct Prepared {
    source: Source,
    files: Vec<File>,
    kernel: CompiledKernel,
    example: Example,
    bound: BoundLaunch,
}

impl Launcher {
    /// The pairs of a request, made as they are read.
    pub(crate) fn dataset(
        &self,
        context: Context,
        request: &DatasetRequest,
    ) -> Result<BoxStream<'static, Result<Pair, ApiError>>, ApiError> {
        self.sandboxes.check_enabled()?;
        let plan = request.plan()?;
        let &DatasetRequest { targets, device, first_index, pair_count, .. } = request;
        if device == Some(KernelDevice::Cuda) {
            self.cuda_kernels.gpu()?;
        }
        let mut memory = self.copies();
        memory.try_resize(CHUNK as u64 * PAIR_BYTES + pair_count * KNOWN_BYTES)?;
        let dataset = Dataset {
            launcher: self.clone(),
            context,
            plan,
            targets,
            device,
            index: first_index,
            left: pair_count,
            misses: 0,
            known: HashSet::new(),
            ready: VecDeque::new(),
            _memory: memory,
        };
        let pairs = stream::try_unfold(dataset, |mut dataset| async move {
            let pair = dataset.next().await?;
            Ok(pair.map(|pair| (pair, dataset)))
        });
        Ok(pairs.boxed())
    }

    /// Where the pairs of a device run besides the CPU.
    fn gpu_for(&self, device: Option<KernelDevice>) -> Result<Option<Target<'_>>, ApiError> {
        match device {
            Some(KernelDevice::Cpu) => Ok(None),
            Some(KernelDevice::Cuda) => self.target(KernelDevice::Cuda).map(Some),
            None => match self.target(KernelDevice::Cuda) {
                Err(ApiError::NoGpu(_)) => Ok(None),
                found => found.map(Some),
            },
        }
    }
}

impl Dataset {
    async fn next(&mut self) -> Result<Option<Pair>, ApiError> {
        while self.ready.is_empty() && self.left > 0 {
            self.make_chunk().await?;
        }
        Ok(self.ready.pop_front())
    }

    /// Makes the pairs of the next kernels.
    async fn make_chunk(&mut self) -> Result<(), ApiError> {
        let sources = self.next_sources().await?;
        let prepared: Vec<_> = sources.into_iter().map(|source| self.prepare(source).boxed()).collect();
        let prepared: Vec<Option<Prepared>> = stream::iter(prepared).buffered(AT_ONCE).try_collect().await?;
        let mut new = Vec::with_capacity(prepared.len());
        for prepared in prepared {
            match prepared.filter(|prepared| self.known.insert(prepared.source.identity.id)) {
                Some(prepared) => new.push(prepared),
                None => self.misses += 1,
            }
        }
        if new.is_empty() {
            return if self.misses < MAX_MISSES { Ok(()) } else { Err(exhausted(self.index)) };
        }
        self.misses = 0;
        let runs = self.run(&mut new).await?;
        self.left -= new.len() as u64;
        self.ready.extend(new.into_iter().zip(runs).map(|(prepared, runs)| pair(prepared, runs)));
        Ok(())
    }

    /// The next kernels of the plan, at most as many as pairs are still to be made.
    async fn next_sources(&mut self) -> Result<Vec<Source>, ApiError> {
        let count = self.left.min(CHUNK as u64);
        let end = self.index.checked_add(count).ok_or_else(|| exhausted(self.index))?;
        let plan = self.plan.clone();
        let written = (self.index..end).map(move |index| {
            let plan = plan.clone();
            tokio::task::spawn_blocking(move || plan.source(index))
        });
        let sources: Result<Vec<_>, _> = stream::iter(written).buffered(AT_ONCE).try_collect().await;
        let sources = sources.map_err(|error| ApiError::ThreadPanic(error.to_string()))?;
        let sources: Vec<_> = sources.into_iter().flatten().collect();
        self.index = end;
        self.misses += count - sources.len() as u64;
        Ok(sources)
    }

    /// Translates a kernel, and finds an example; `None` if there is none.
    async fn prepare(&self, source: Source) -> Result<Option<Prepared>, ApiError> {
        let request = TranslationRequest {
            source: source.text.clone(),
            dialect: Some(source.dialect),
            // The program in CUDA C++ is for the example; module and device code are run.
            targets: Targets { cuda: true, wasm: true, device: true },
            ..TranslationRequest::default()
        };
        let mut translation = self.launcher.run_translation(request, &self.context).await?;
        let Some(mut translated) = translation.kernels.pop() else { return Ok(None) };
        let Some(example) = translated.example.take() else { return Ok(None) };
        let files = self.files(&translated);
        let kernel = CompiledKernel::new(String::new(), translated);
        let bound = bind(&kernel, &example, self.launcher.sandboxes.case_memory().bytes);
        Ok(bound.ok().map(|bound| Prepared { source, files, kernel, example, bound }))
    }

    /// The files that are requested.
    fn files(&self, translated: &Translated) -> Vec<File> {
        let is_wanted = |name: &str| if is_module(name) { self.targets.wasm } else { self.targets.cuda };
        translated.files.iter().filter(|file| is_wanted(&file.name)).cloned().collect()
    }

    /// Runs each kernel wherever kernels run; adds files of PTX if they are requested.
    async fn run(&self, prepared: &mut [Prepared]) -> Result<Vec<Vec<DatasetRun>>, ApiError> {
        if self.targets.device {
            self.add_ptx(prepared).await?;
        }
        let gpu = self.launcher.gpu_for(self.device)?;
        let cpu = self.launcher.cpu();
        let codes = match &gpu {
            Some(gpu) => self.compile(gpu, prepared).await?,
            None => vec![],
        };
        let runs = prepared.iter().enumerate().map(|(nth, prepared)| {
            let on_gpu = gpu.as_ref().map(|gpu| (gpu, &codes[nth]));
            self.run_everywhere(&cpu, on_gpu, prepared).boxed()
        });
        stream::iter(runs.collect::<Vec<_>>()).buffered(AT_ONCE).try_collect().await
    }

    async fn run_everywhere(
        &self,
        cpu: &Target<'_>,
        on_gpu: Option<(&Target<'_>, &Result<Module, String>)>,
        prepared: &Prepared,
    ) -> Result<Vec<DatasetRun>, ApiError> {
        let mut runs = vec![self.run_on(cpu, prepared, None).await?];
        match on_gpu {
            None => {}
            Some((gpu, Ok(code))) => runs.push(self.run_on(gpu, prepared, Some(code)).await?),
            Some((_, Err(message))) => runs.push(failed(KernelDevice::Cuda, message.clone())),
        }
        Ok(runs)
    }

    async fn add_ptx(&self, prepared: &mut [Prepared]) -> Result<(), ApiError> {
        let kernels = &self.launcher.cuda_kernels;
        let arch = kernels.arch("", "")?;
        for Prepared { source, files, kernel, .. } in prepared {
            let compiled = kernels.compile(&kernel.device, arch, &self.context).await?;
            files.extend(ptx_files(&source.name, &kernel.device.entry, &compiled));
        }
        Ok(())
    }

    /// The code of each kernel for a GPU, or why there is none.
    async fn compile(&self, gpu: &Target<'_>, prepared: &[Prepared]) -> Result<Vec<Result<Module, String>>, ApiError> {
        let arch = gpu.gpu().expect("a target on a GPU").properties.arch;
        let turns = self.launcher.cuda_kernels.quick_turns();
        let codes: Vec<_> = prepared.iter().map(|prepared| &prepared.kernel.device).collect();
        // A group for each process that may compile.
        let groups = codes.chunks(codes.len().div_ceil(MAX_QUICK_COMPILERS));
        let groups: Vec<_> = groups.map(|codes| self.compile_group(&turns, codes, arch).boxed()).collect();
        let compiled: Vec<_> = stream::iter(groups).buffered(MAX_QUICK_COMPILERS).try_collect().await?;
        Ok(compiled.concat())
    }

    async fn compile_group(
        &self,
        turns: &Turns,
        codes: &[&DeviceCode],
        arch: Arch,
    ) -> Result<Vec<Result<Module, String>>, ApiError> {
        if let Ok(together) = self.compile_together(turns, codes, arch).await? {
            return Ok(vec![Ok(together); codes.len()]);
        }
        // One of them does not compile; the others do.
        let mut compiled = Vec::with_capacity(codes.len());
        for code in codes {
            compiled.push(self.compile_together(turns, &[code], arch).await?);
        }
        Ok(compiled)
    }

    async fn compile_together(
        &self,
        turns: &Turns,
        codes: &[&DeviceCode],
        arch: Arch,
    ) -> Result<Result<Module, String>, ApiError> {
        let kernels = &self.launcher.cuda_kernels;
        let compiled = kernels.compile_together(codes, arch, (turns, &self.context)).await;
        Ok(outcome(compiled)?.map(|CudaCode { image, .. }| Module::new(image)))
    }

    async fn run_on(
        &self,
        target: &Target<'_>,
        prepared: &Prepared,
        code: Option<&Module>,
    ) -> Result<DatasetRun, ApiError> {
        let Prepared { kernel, example, bound, .. } = prepared;
        let launched = self.launcher.launch_example(target, (kernel, code), bound, &self.context).await;
        let result = match outcome(launched)? {
            Ok(result) => result,
            Err(message) => return Ok(failed(target.device(), message)),
        };
        let mut run = DatasetRun {
            device: target.device(),
            verdict: RunVerdict::Fault,
            agreement: Agreement::default(),
            execution_time: Some(result.execution_time),
            message: String::new(),
        };
        if let Some(fault) = result.faults.first() {
            run.message = format!("thread {} ended with a fault", fault.thread);
            return Ok(run);
        }
        for (output, actual) in bound.outputs.iter().zip(&result.outputs) {
            let element = kernel.kernel.params[output.param].ty.element();
            run.agreement.add(element, actual, example.expected[output.param].bytes());
        }
        run.verdict = run.agreement.verdict();
        Ok(run)
    }
}

/// A pair whose kernel was run.
fn pair(prepared: Prepared, runs: Vec<DatasetRun>) -> Pair {
    let Prepared { source, files, kernel, .. } = prepared;
    Pair { source, files, bit_exact: kernel.bit_exact, runs }
}

/// Separates a failure, which is that of the kernel, from an error of the call.
fn outcome<T>(result: Result<T, ApiError>) -> Result<Result<T, String>, ApiError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(ApiError::Sandbox(error)) if is_of_kernel(&error) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

fn is_of_kernel(error: &SandboxError) -> bool {
    use accelerd_sandbox::Refusal;
    match error {
        SandboxError::Refused(refusal) => !matches!(refusal, Refusal::NoCompiler(_)),
        SandboxError::Crashed { .. } | SandboxError::OutOfMemory(_) => true,
        SandboxError::Timeout { .. }
        | SandboxError::Canceled
        | SandboxError::Busy
        | SandboxError::Preempted(_)
        | SandboxError::Protocol(_)
        | SandboxError::Start(_) => false,
    }
}

fn failed(device: KernelDevice, message: String) -> DatasetRun {
    let verdict = RunVerdict::Failed;
    let agreement = Agreement::default();
    DatasetRun { device, verdict, agreement, execution_time: None, message }
}

/// The launch of an example, whose outputs are bytes.
fn bind(kernel: &CompiledKernel, example: &Example, max_bytes: u64) -> Result<BoundLaunch, ImageError> {
    let grid: Vec<u64> = example.grid.iter().map(|extent| u64::from(*extent)).collect();
    let arguments = example.arguments.iter().map(|argument| match argument {
        Argument::Value(data) => ImageArgument::Value(Bytes::copy_from_slice(data)),
        Argument::Array(array) => ImageArgument::Array {
            extents: array.shape.iter().map(|extent| u64::from(extent.unsigned_abs())).collect(),
            data: Bytes::copy_from_slice(&array.data),
        },
    });
    let image = MemoryImage::new(&kernel.kernel, &grid, arguments.collect(), max_bytes)?;
    let written = kernel.kernel.params.iter().enumerate().filter(|(nth, _)| kernel.written[*nth]);
    let outputs = written.map(|(param, of)| {
        let shape = vec![example.expected[param].bytes().len()];
        BoundOutput { name: of.name.clone(), param, of: TensorType { dtype: Dtype::U8, shape } }
    });
    Ok(BoundLaunch { grid, image, outputs: outputs.collect() })
}

fn exhausted(index: u64) -> ApiError {
    ApiError::NoMoreKernels { misses: MAX_MISSES, index }
}
