//! `KernelService`: translates numeric programs, compiles and runs them.

use std::sync::Arc;

use accelerd_kernels::ops::translate::{Request as TranslationRequest, Translation};
use accelerd_proto::v1 as pb;
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use tonic::{Request, Response, Status};

use self::{
    dataset::{dataset_request, dataset_response},
    evaluate::{evaluation_request, judgement},
    launch::{benchmark_request, launch_request, launched, measured},
    program::{constants, dialect, targets},
};
use crate::{
    app::App,
    auth::caller::Caller,
    error::ApiError,
    grpc::{call::Responses, context::context, handlers::KernelService},
    kernels::launch::Launcher,
};

mod dataset;
mod describe;
mod evaluate;
mod launch;
mod program;

pub(super) use self::{describe::kernel as describe, launch::device, program::program};

/// The service.
#[derive(Clone)]
pub(super) struct Kernels(Launcher);

impl Kernels {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self(app.launcher())
    }
}

fn translation_request(request: pb::TranslateRequest) -> Result<TranslationRequest, ApiError> {
    Ok(TranslationRequest {
        dialect: dialect("dialect", request.dialect)?,
        targets: targets(&request.targets)?,
        constants: constants("constants", request.constants)?,
        source: request.source,
        names: request.names,
        ..TranslationRequest::default()
    })
}

impl KernelService for Kernels {
    async fn translate(
        &self,
        request: Request<pb::TranslateRequest>,
    ) -> Result<Response<pb::TranslateResponse>, Status> {
        let context = context(&request);
        let mut request = request.into_inner();
        let cuda_arch = std::mem::take(&mut request.cuda_arch);
        let translation = self.0.translate(translation_request(request)?, &cuda_arch, &context).await?;
        let Translation { kernels, diagnostics, .. } = translation;
        let response = pb::TranslateResponse {
            kernels: kernels.into_iter().map(describe::translated).collect(),
            diagnostics: diagnostics.into_iter().map(describe::diagnostic).collect(),
        };
        let limit = self.0.max_message;
        if response.encoded_len() > limit {
            return Err(ApiError::TranslationTooLarge { limit }.into());
        }
        Ok(Response::new(response))
    }

    async fn compile(&self, request: Request<pb::CompileRequest>) -> Result<Response<pb::CompileResponse>, Status> {
        let context = context(&request);
        let pb::CompileRequest { program: of, cuda } = request.into_inner();
        let of = of.ok_or_else(|| ApiError::invalid("program", "expected a program, got none"))?;
        let arch = cuda.map(|options| options.arch);
        let (kernel, code) = self.0.compile(program("program", of)?, arch.as_deref(), &context).await?;
        let cuda = code.as_deref().map(describe::cuda_code);
        Ok(Response::new(pb::CompileResponse { kernel: Some(describe(&kernel)), cuda }))
    }

    async fn launch(&self, request: Request<pb::LaunchRequest>) -> Result<Response<pb::LaunchResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let request = launch_request("", request.into_inner())?;
        Ok(Response::new(launched(self.0.launch(&caller, &context, request).await?)))
    }

    async fn benchmark(
        &self,
        request: Request<pb::BenchmarkRequest>,
    ) -> Result<Response<pb::BenchmarkResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let request = benchmark_request(request.into_inner())?;
        Ok(Response::new(measured(&self.0.benchmark(&caller, &context, request).await?)))
    }

    async fn evaluate(&self, request: Request<pb::EvaluateRequest>) -> Result<Response<pb::EvaluateResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let request = evaluation_request(request.into_inner())?;
        Ok(Response::new(judgement(self.0.evaluate(&caller, &context, request).await?)))
    }

    async fn generate_dataset(
        &self,
        request: Request<pb::GenerateDatasetRequest>,
    ) -> Result<Response<Responses<pb::GenerateDatasetResponse>>, Status> {
        let context = context(&request);
        let pairs = self.0.dataset(context, &dataset_request(request.get_ref())?)?;
        Ok(Response::new(pairs.map_ok(dataset_response).map_err(Status::from).boxed()))
    }

    async fn list_kernels(
        &self,
        _: Request<pb::ListKernelsRequest>,
    ) -> Result<Response<pb::ListKernelsResponse>, Status> {
        let kernels = self.0.kernels.list().iter().map(|kernel| describe(kernel)).collect();
        Ok(Response::new(pb::ListKernelsResponse { kernels }))
    }

    async fn evict_kernel(
        &self,
        request: Request<pb::EvictKernelRequest>,
    ) -> Result<Response<pb::EvictKernelResponse>, Status> {
        let caller = Caller::of(request.extensions());
        self.0.kernels.evict(&request.into_inner().kernel_id, &caller)?;
        Ok(Response::new(pb::EvictKernelResponse {}))
    }
}
