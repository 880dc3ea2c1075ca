//! `KernelService`: translates numeric programs.

use std::collections::BTreeMap;

use accelerd_engine::Lane;
use accelerd_kernels::ops::translate::{
    Captured, Component, Diagnostic, Dialect, Param, ParamType, Request as TranslationRequest, Targets, TooLarge,
    Translate, Translated,
};
use accelerd_proto::v1::{self as pb, kernel_constant::Value, kernel_service_server::KernelService};
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    config::to_usize,
    error::ApiError,
    grpc::{context::context, dtype::dtype_to_proto},
    layers::timing,
    status::translation_too_large,
};

/// The code of a diagnostic of a requested kernel that the module does not have.
const NO_KERNEL: &str = "no_kernel";

/// The service.
#[derive(Clone, Debug)]
pub(super) struct Kernels {
    lane: Lane<Translate>,
    max_source: usize,
    max_message: usize,
}

impl Kernels {
    pub(super) fn new(app: &App) -> Self {
        let config = &app.config;
        Self {
            lane: app.engine.lane(config.lanes.lane(&config.lanes.translate)),
            max_source: to_usize(config.limits.max_kernel_source_bytes),
            max_message: config.server.max_message(),
        }
    }

    fn decode(&self, request: pb::TranslateRequest) -> Result<TranslationRequest, ApiError> {
        let (dialect, targets) = (dialect(request.dialect)?, targets(&request.targets)?);
        let pb::TranslateRequest { source, constants, names, .. } = request;
        if source.is_empty() {
            return Err(ApiError::invalid("source", "expected a module, got none"));
        }
        if source.len() > self.max_source {
            let reason = format!("expected at most {} bytes, got {}", self.max_source, source.len());
            return Err(ApiError::invalid("source", reason));
        }
        let constants = constants.into_iter().map(constant).collect::<Result<BTreeMap<_, _>, _>>()?;
        Ok(TranslationRequest { source, dialect, constants, names, targets, max_bytes: self.max_message })
    }
}

#[tonic::async_trait]
impl KernelService for Kernels {
    async fn translate(
        &self,
        request: Request<pb::TranslateRequest>,
    ) -> Result<Response<pb::TranslateResponse>, Status> {
        let context = context(&request);
        let request = self.decode(request.into_inner())?;
        let names = request.names.clone();
        let done = self.lane.submit(request, context).await.map_err(ApiError::from)?;
        timing::record(&done);
        let translation = done.response.map_err(|TooLarge { limit }| translation_too_large(limit))?;
        check_names(&names, &translation.diagnostics)?;
        Ok(Response::new(pb::TranslateResponse {
            kernels: translation.kernels.into_iter().map(kernel).collect(),
            diagnostics: translation.diagnostics.into_iter().map(diagnostic).collect(),
        }))
    }

    async fn compile(&self, _: Request<pb::CompileRequest>) -> Result<Response<pb::CompileResponse>, Status> {
        Err(Status::unimplemented("compile"))
    }

    async fn launch(&self, _: Request<pb::LaunchRequest>) -> Result<Response<pb::LaunchResponse>, Status> {
        Err(Status::unimplemented("launch"))
    }

    async fn list_kernels(
        &self,
        _: Request<pb::ListKernelsRequest>,
    ) -> Result<Response<pb::ListKernelsResponse>, Status> {
        Err(Status::unimplemented("list_kernels"))
    }

    async fn evict_kernel(
        &self,
        _: Request<pb::EvictKernelRequest>,
    ) -> Result<Response<pb::EvictKernelResponse>, Status> {
        Err(Status::unimplemented("evict_kernel"))
    }
}

fn dialect(number: i32) -> Result<Option<Dialect>, ApiError> {
    match pb::KernelDialect::try_from(number) {
        Ok(pb::KernelDialect::Unspecified) => Ok(None),
        Ok(pb::KernelDialect::Warp) => Ok(Some(Dialect::Warp)),
        Ok(pb::KernelDialect::Python) => Ok(Some(Dialect::Python)),
        Err(_) => Err(ApiError::invalid("dialect", format!("expected a dialect, got {number}"))),
    }
}

fn targets(requested: &[i32]) -> Result<Targets, ApiError> {
    if requested.is_empty() {
        return Ok(Targets::default());
    }
    let mut targets = Targets { cuda: false, wasm: false };
    for (nth, number) in requested.iter().enumerate() {
        match pb::KernelTarget::try_from(*number) {
            Ok(pb::KernelTarget::Cuda) => targets.cuda = true,
            Ok(pb::KernelTarget::Wasm) => targets.wasm = true,
            Ok(pb::KernelTarget::Unspecified) | Err(_) => {
                return Err(ApiError::invalid(format!("targets[{nth}]"), format!("expected a target, got {number}")));
            }
        }
    }
    Ok(targets)
}

fn constant((name, constant): (String, pb::KernelConstant)) -> Result<(String, Captured), ApiError> {
    let value = match constant.value {
        Some(Value::Integer(value)) => Captured::Int(value),
        Some(Value::Number(value)) => Captured::Float(value),
        Some(Value::Boolean(value)) => Captured::Bool(value),
        None => return Err(ApiError::invalid(format!("constants[{name:?}]"), "expected a value, got none")),
    };
    Ok((name, value))
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

fn kernel(translated: Translated) -> pb::TranslatedKernel {
    let Translated { name, kernel, is_bit_exact, files, .. } = translated;
    pb::TranslatedKernel {
        name,
        grid_dims: kernel.grid_dims.into(),
        params: kernel.params.into_iter().map(param).collect(),
        bit_exact: is_bit_exact,
        files: files.into_iter().map(|file| pb::KernelFile { name: file.name, content: file.content.into() }).collect(),
    }
}

fn param(param: Param) -> pb::KernelParam {
    let (dims, element) = match param.ty {
        ParamType::Value(element) => (0, element),
        ParamType::Array(array) => (array.dims, array.element),
    };
    pb::KernelParam {
        name: param.name,
        dims: dims.into(),
        element_size_bytes: element.size,
        components: element.components.into_iter().map(component).collect(),
    }
}

fn component(component: Component) -> pb::KernelComponent {
    let Component { name, dtype, offset } = component;
    pb::KernelComponent { name, dtype: dtype_to_proto(dtype).into(), offset_bytes: offset }
}

fn diagnostic(diagnostic: Diagnostic) -> pb::KernelDiagnostic {
    let Diagnostic { kernel, code, message, line, column } = diagnostic;
    pb::KernelDiagnostic { kernel, code: code.to_owned(), message, line, column }
}
