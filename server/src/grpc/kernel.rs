//! `KernelService`: translates numeric programs, compiles and runs them.

use std::{collections::BTreeMap, sync::Arc};

use accelerd_engine::Context;
use accelerd_kernels::ops::translate::{Diagnostic, Request as TranslationRequest, Targets, TooLarge, Translated};
use accelerd_proto::v1::{self as pb, launch_request};
use prost::Message;
use tonic::{Request, Response, Status};

use self::launch::Launcher;
use crate::{
    app::App,
    auth::caller::Caller,
    config::to_usize,
    error::ApiError,
    grpc::{call::Responses, context::context, handlers::KernelService},
    kernels::{CompiledKernel, NO_KERNEL, check_source, constant, dialect},
    layers::timing,
    status::{bounded_message, translation_too_large},
};

mod arguments;
mod benchmark;
mod cuda;
mod dataset;
mod describe;
mod element_type;
mod evaluate;
mod launch;

pub(super) use describe::kernel as describe;

/// The service.
#[derive(Clone)]
pub(super) struct Kernels {
    app: Arc<App>,
    launcher: Launcher,
}

impl Kernels {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), launcher: Launcher::new(app) }
    }

    fn decode(&self, request: pb::TranslateRequest) -> Result<TranslationRequest, ApiError> {
        let config = &self.app.config;
        let (dialect, targets) = (dialect("dialect", request.dialect)?, targets(&request.targets)?);
        let pb::TranslateRequest { source, constants, names, .. } = request;
        check_source("source", &source, to_usize(config.limits.max_kernel_source_bytes))?;
        let constants = constants.into_iter().map(|named| constant("constants", named));
        let constants = constants.collect::<Result<BTreeMap<_, _>, _>>()?;
        Ok(TranslationRequest { source, dialect, constants, names, targets, max_bytes: config.server.max_message() })
    }
}

impl Kernels {
    /// The kernel of a launch.
    async fn kernel(
        &self,
        launch: &mut pb::LaunchRequest,
        prefix: &str,
        context: &Context,
    ) -> Result<Arc<CompiledKernel>, ApiError> {
        self.app.sandboxes.check_enabled()?;
        match launch.kernel.take() {
            Some(launch_request::Kernel::KernelId(id)) => self.app.kernels.get(&id),
            Some(launch_request::Kernel::Program(program)) => {
                self.app.kernels.compile(program, &format!("{prefix}program"), context).await
            }
            None => {
                let reason = "expected an id or a program, got neither";
                Err(ApiError::invalid(format!("{prefix}kernel_id"), reason))
            }
        }
    }
}

impl KernelService for Kernels {
    async fn translate(
        &self,
        request: Request<pb::TranslateRequest>,
    ) -> Result<Response<pb::TranslateResponse>, Status> {
        let context = context(&request);
        let request = request.into_inner();
        let arch = self.app.cuda_kernels.arch("cuda_arch", &request.cuda_arch)?;
        let request = self.decode(request)?;
        if request.targets.device {
            self.app.sandboxes.check_enabled()?;
        }
        let names = request.names.clone();
        let done = self.app.translate.submit(request, context.clone()).await.map_err(ApiError::from)?;
        timing::record(&done);
        let translation = done.response.map_err(|TooLarge { limit }| translation_too_large(limit))?;
        check_names(&names, &translation.diagnostics)?;
        let mut kernels = Vec::with_capacity(translation.kernels.len());
        for mut kernel in translation.kernels {
            let device = kernel.device.take();
            let mut translated = translated(kernel);
            if let Some(code) = device {
                let compiled = self.app.cuda_kernels.compile(&code, arch, &context).await;
                let compiled = compiled.map_err(|error| error.refused_in("source"))?;
                translated.files.extend(cuda::files(&translated.name, &code.entry, &compiled));
            }
            kernels.push(translated);
        }
        let response = pb::TranslateResponse {
            kernels,
            diagnostics: translation.diagnostics.into_iter().map(diagnostic).collect(),
        };
        let limit = self.app.config.server.max_message();
        if response.encoded_len() > limit {
            return Err(translation_too_large(limit));
        }
        Ok(Response::new(response))
    }

    async fn compile(&self, request: Request<pb::CompileRequest>) -> Result<Response<pb::CompileResponse>, Status> {
        let context = context(&request);
        let pb::CompileRequest { program, cuda: options } = request.into_inner();
        let program = program.ok_or_else(|| ApiError::invalid("program", "expected a program, got none"))?;
        let arch = options.map(|options| self.app.cuda_kernels.arch("cuda.arch", &options.arch)).transpose()?;
        if arch.is_some() {
            self.app.sandboxes.check_enabled()?;
        }
        let kernel = self.app.kernels.compile(program, "program", &context).await?;
        let cuda = match arch {
            None => None,
            Some(arch) => {
                let compiled = self.app.cuda_kernels.compile(&kernel.device, arch, &context).await;
                Some(cuda::code(&*compiled.map_err(|error| error.refused_in("program.source"))?))
            }
        };
        Ok(Response::new(pb::CompileResponse { kernel: Some(describe(&kernel)), cuda }))
    }

    async fn launch(&self, request: Request<pb::LaunchRequest>) -> Result<Response<pb::LaunchResponse>, Status> {
        let (caller, context) = (Caller::of(request.extensions()), context(&request));
        let mut request = request.into_inner();
        let kernel = self.kernel(&mut request, "", &context).await?;
        Ok(Response::new(self.launcher.launch(&caller, &context, &kernel, request).await?))
    }

    async fn benchmark(
        &self,
        request: Request<pb::BenchmarkRequest>,
    ) -> Result<Response<pb::BenchmarkResponse>, Status> {
        let (caller, context) = (Caller::of(request.extensions()), context(&request));
        let mut request = request.into_inner();
        let kernel = self.kernel(request.launch.get_or_insert_default(), "launch.", &context).await?;
        let reference = match request.reference.take() {
            Some(program) => self.app.kernels.compile(program, "reference", &context).await?,
            None => Arc::clone(&kernel),
        };
        Ok(Response::new(self.launcher.benchmark(&caller, &context, [kernel, reference], request).await?))
    }

    async fn evaluate(&self, request: Request<pb::EvaluateRequest>) -> Result<Response<pb::EvaluateResponse>, Status> {
        let (caller, context) = (Caller::of(request.extensions()), context(&request));
        Ok(Response::new(self.launcher.evaluate(&caller, &context, request.into_inner()).await?))
    }

    async fn generate_dataset(
        &self,
        request: Request<pb::GenerateDatasetRequest>,
    ) -> Result<Response<Responses<pb::GenerateDatasetResponse>>, Status> {
        let context = context(&request);
        Ok(Response::new(self.launcher.dataset(context, &request.into_inner())?))
    }

    async fn list_kernels(
        &self,
        _: Request<pb::ListKernelsRequest>,
    ) -> Result<Response<pb::ListKernelsResponse>, Status> {
        let kernels = self.app.kernels.list().iter().map(|kernel| describe(kernel)).collect();
        Ok(Response::new(pb::ListKernelsResponse { kernels }))
    }

    async fn evict_kernel(
        &self,
        request: Request<pb::EvictKernelRequest>,
    ) -> Result<Response<pb::EvictKernelResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let id = request.into_inner().kernel_id;
        self.app.kernels.evict(&id, &caller)?;
        caller.record_change(&id);
        Ok(Response::new(pb::EvictKernelResponse {}))
    }
}

fn targets(requested: &[i32]) -> Result<Targets, ApiError> {
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

/// Refuses names of kernels that the module, if it is valid, does not have.
fn check_names(names: &[String], diagnostics: &[Diagnostic]) -> Result<(), ApiError> {
    if diagnostics.iter().any(|diagnostic| diagnostic.kernel.is_empty()) {
        return Ok(());
    }
    let missing = |name: &String| diagnostics.iter().any(|of| of.code == NO_KERNEL && of.kernel == *name);
    match names.iter().position(missing) {
        Some(nth) => {
            let reason = format!("expected the name of a kernel of the module, got {:?}", names[nth]);
            Err(ApiError::invalid(format!("names[{nth}]"), reason))
        }
        None => Ok(()),
    }
}

fn translated(translated: Translated) -> pb::TranslatedKernel {
    let Translated { name, kernel, is_bit_exact, files, .. } = translated;
    pb::TranslatedKernel {
        name,
        grid_dims: kernel.grid_dims.into(),
        params: kernel.params.iter().map(describe::param).collect(),
        bit_exact: is_bit_exact,
        files: files.into_iter().map(|file| pb::KernelFile { name: file.name, content: file.content.into() }).collect(),
    }
}

fn diagnostic(diagnostic: Diagnostic) -> pb::KernelDiagnostic {
    let Diagnostic { kernel, code, message, line, column } = diagnostic;
    pb::KernelDiagnostic { kernel, code: code.to_owned(), message: bounded_message(&message), line, column }
}
