//! Kernels of clients: a cache of compiled ones, and the code that launches, measures, evaluates and generates them.

pub(crate) mod arguments;
pub(crate) mod benchmark;
mod compiled;
mod cuda;
pub(crate) mod dataset;
mod element_type;
pub(crate) mod evaluate;
mod kept;
pub(crate) mod launch;
mod program;
mod ptx_files;
mod translate;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accelerd_engine::{Context, Lane};
use accelerd_kernels::{
    ledger::{Account, Kind, Ledger, Place},
    ops::translate::{Diagnostic, TooLarge, Translate, Translated, Translation},
};

use crate::{
    auth::{caller::Caller, role::Role},
    config::{Config, to_usize},
    error::ApiError,
    layers::timing,
};
pub(crate) use compiled::CompiledKernel;
use compiled::is_module;
use cuda::MAX_QUICK_COMPILERS;
pub(crate) use cuda::{CudaKernel, CudaKernels, Gpu};
use kept::Kept;
pub(crate) use program::Program;
use program::{NO_KERNEL, check_source};

/// The most bytes of the modules of a source.
const MAX_MODULE_BYTES: usize = 16 << 20;

/// Kernels that a source has and that are named in an error.
const MAX_NAMED: usize = 20;

/// Compiles kernels and keeps them. Clones share them.
#[derive(Clone)]
pub(crate) struct KernelCache(Arc<Shared>);

struct Shared {
    lane: Lane<Translate>,
    max_source: usize,
    kept: Mutex<Kept<CompiledKernel>>,
    account: Account,
}

impl KernelCache {
    pub(crate) fn new(config: &Config, ledger: &Ledger, lane: Lane<Translate>) -> Self {
        let limits = &config.limits;
        Self(Arc::new(Shared {
            lane,
            max_source: to_usize(limits.max_kernel_source_bytes),
            kept: Mutex::new(Kept::new(limits.max_kept_kernels, limits.max_kept_kernel_bytes.as_u64())),
            account: ledger.account(Place::Host, Kind::Sandbox),
        }))
    }

    /// The kernel of a program, compiled unless it is kept. `field` is the program's place in the request.
    ///
    /// # Errors
    /// The program is malformed or outside of the language, it has no kernel of the name, or several and no name.
    pub(crate) async fn compile(
        &self,
        program: Program,
        field: &str,
        context: &Context,
    ) -> Result<Arc<CompiledKernel>, ApiError> {
        check_source(&format!("{field}.source"), &program.source, self.0.max_source)?;
        let id = program.id();
        if let Some(kept) = self.kept().get(&id) {
            return Ok(kept);
        }
        let source_field = format!("{field}.source");
        let request = program.translation(MAX_MODULE_BYTES);
        let done = self.0.lane.submit(request, context.clone()).await?;
        timing::record(&done);
        let translation = done.response.map_err(|TooLarge { limit }| {
            ApiError::invalid(&source_field, format!("expected kernels of at most {limit} bytes, got more"))
        })?;
        let kernel = Arc::new(CompiledKernel::new(id, only_kernel(&program, translation, field)?));
        self.kept().insert(Arc::clone(&kernel), context.principal, &self.0.account);
        Ok(kernel)
    }

    /// A kernel that is kept.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<CompiledKernel>, ApiError> {
        self.kept().get(&id.to_owned()).ok_or_else(|| unknown(id))
    }

    /// All kernels that are kept, the most recently used first.
    pub(crate) fn list(&self) -> Vec<Arc<CompiledKernel>> {
        self.kept().list()
    }

    /// Drops a kernel for a caller who compiled it first, or may administer. Calls that use it finish.
    pub(crate) fn evict(&self, id: &str, caller: &Caller) -> Result<(), ApiError> {
        let mut kept = self.kept();
        let key = id.to_owned();
        let owner = kept.owner(&key).ok_or_else(|| unknown(id))?;
        if owner != caller.queue_id() && caller.role() != Some(Role::Admin) {
            let reason = "expected a kernel that the caller compiled first, or the role admin";
            return Err(ApiError::Denied(format!("kernel_id: {reason}")));
        }
        kept.evict(&key);
        drop(kept);
        caller.record_change(id);
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Kept<CompiledKernel>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(id: &str) -> ApiError {
    ApiError::NotFound { kind: "kernel", name: id.chars().take(64).collect() }
}

/// The one kernel that a program names, or has.
fn only_kernel(program: &Program, mut translation: Translation, field: &str) -> Result<Translated, ApiError> {
    if program.name.is_empty() {
        let kernels = translation.kernels.iter().map(|kernel| &kernel.name);
        let failed = translation.diagnostics.iter().map(|diagnostic| &diagnostic.kernel);
        let mut names: Vec<_> = kernels.chain(failed).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > 1 {
            let shown: Vec<_> = names.iter().take(MAX_NAMED).map(|name| format!("{name:?}")).collect();
            let more = if names.len() > MAX_NAMED { ", ..." } else { "" };
            let reason = format!("expected one of {}{more}, got none", shown.join(", "));
            return Err(ApiError::invalid(format!("{field}.name"), reason));
        }
    }
    if let Some(diagnostic) = translation.diagnostics.first() {
        return Err(refused(program, diagnostic, field));
    }
    // Of several functions of one name, Python's last one counts.
    translation.kernels.pop().ok_or_else(|| ApiError::invalid(format!("{field}.source"), "expected a kernel, got none"))
}

fn refused(program: &Program, diagnostic: &Diagnostic, field: &str) -> ApiError {
    let Diagnostic { kernel, code, message, line, column } = diagnostic;
    if *code == NO_KERNEL && !kernel.is_empty() {
        return ApiError::invalid(
            format!("{field}.name"),
            format!("expected the name of a kernel of the module, got {:?}", program.name),
        );
    }
    ApiError::invalid(format!("{field}.source"), format!("line {line}, column {column}: {message} ({code})"))
}
