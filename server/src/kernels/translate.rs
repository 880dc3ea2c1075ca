//! Translates the kernels of a module to files, and compiles kernels.

use std::sync::Arc;

use accelerd_engine::Context;
use accelerd_kernels::ops::translate::{Diagnostic, Request, TooLarge, Translation};

use super::{
    CompiledKernel, CudaKernel, Program,
    launch::Launcher,
    program::{NO_KERNEL, check_source},
    ptx_files::ptx_files,
};
use crate::{error::ApiError, layers::timing};

impl Launcher {
    /// Translates kernels; `cuda_arch` is the architecture of those that are compiled for GPUs.
    pub(crate) async fn translate(
        &self,
        request: Request,
        cuda_arch: &str,
        context: &Context,
    ) -> Result<Translation, ApiError> {
        let arch = self.cuda_kernels.arch("cuda_arch", cuda_arch)?;
        check_source("source", &request.source, self.max_source)?;
        if request.targets.device {
            self.sandboxes.check_enabled()?;
        }
        let names = request.names.clone();
        let mut translation = self.run_translation(request, context).await?;
        check_names(&names, &translation.diagnostics)?;
        for kernel in &mut translation.kernels {
            if let Some(code) = kernel.device.take() {
                let compiled = self.cuda_kernels.compile(&code, arch, context).await;
                let compiled = compiled.map_err(|error| error.refused_in("source"))?;
                kernel.files.extend(ptx_files(&kernel.name, &code.entry, &compiled));
            }
        }
        Ok(translation)
    }

    /// Compiles a program, and its kernel for GPUs of an architecture if one is named; the empty name is the default.
    pub(crate) async fn compile(
        &self,
        program: Program,
        cuda_arch: Option<&str>,
        context: &Context,
    ) -> Result<(Arc<CompiledKernel>, Option<Arc<CudaKernel>>), ApiError> {
        let arch = cuda_arch.map(|name| self.cuda_kernels.arch("cuda.arch", name)).transpose()?;
        if arch.is_some() {
            self.sandboxes.check_enabled()?;
        }
        let kernel = self.kernels.compile(program, "program", context).await?;
        let Some(arch) = arch else { return Ok((kernel, None)) };
        let compiled = self.cuda_kernels.compile(&kernel.device, arch, context).await;
        let compiled = compiled.map_err(|error| error.refused_in("program.source"))?;
        Ok((kernel, Some(compiled)))
    }

    /// Runs a translation in its lane.
    pub(super) async fn run_translation(&self, request: Request, context: &Context) -> Result<Translation, ApiError> {
        let request = Request { max_bytes: self.max_message, ..request };
        let done = self.translate.submit(request, context.clone()).await?;
        timing::record(&done);
        done.response.map_err(|TooLarge { limit }| ApiError::TranslationTooLarge { limit })
    }
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
