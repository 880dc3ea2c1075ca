//! Numeric programs: translations, compiled kernels and launches.

mod dataset;
mod evaluate;
mod launch;

use std::collections::BTreeMap;

use accelerd_proto::methods::kernel_service;

use crate::{
    Client, Result,
    proto::{self, KernelDialect, KernelTarget, kernel_constant::Value},
    timing::Timings,
};

pub use self::dataset::DatasetOptions;
pub use self::evaluate::Evaluation;
pub use self::launch::{Benchmark, KernelProgram, Launch, LaunchOutcome};

/// Value of a name that a module uses and does not define.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelConstant(Value);

/// Options of a translation. By default a module's dialect follows from its decorators, and all kernels are translated to CUDA C++ and WebAssembly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TranslateOptions {
    dialect: KernelDialect,
    constants: BTreeMap<String, proto::KernelConstant>,
    names: Vec<String>,
    targets: Vec<i32>,
    cuda_arch: String,
}

/// The translations of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// The kernels that were translated, in the order of the source.
    pub kernels: Vec<proto::TranslatedKernel>,
    /// Why others, or the module, were not.
    pub diagnostics: Vec<proto::KernelDiagnostic>,
    /// Server-side timings.
    pub timings: Timings,
}

impl From<i64> for KernelConstant {
    fn from(value: i64) -> Self {
        Self(Value::Integer(value))
    }
}

impl From<f64> for KernelConstant {
    fn from(value: f64) -> Self {
        Self(Value::Number(value))
    }
}

impl From<bool> for KernelConstant {
    fn from(value: bool) -> Self {
        Self(Value::Boolean(value))
    }
}

impl TranslateOptions {
    /// Sets the meaning of operators and functions.
    #[must_use]
    pub fn dialect(self, dialect: KernelDialect) -> Self {
        Self { dialect, ..self }
    }

    /// Defines a name that the module uses.
    #[must_use]
    pub fn constant(mut self, name: impl Into<String>, value: impl Into<KernelConstant>) -> Self {
        let KernelConstant(value) = value.into();
        self.constants.insert(name.into(), proto::KernelConstant { value: Some(value) });
        self
    }

    /// Adds a kernel to those that are translated.
    #[must_use]
    pub fn kernel(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Adds a target to those that kernels are translated to.
    #[must_use]
    pub fn target(mut self, target: KernelTarget) -> Self {
        self.targets.push(target.into());
        self
    }

    /// The architecture of PTX, such as `sm_90`.
    #[must_use]
    pub fn cuda_arch(self, arch: impl Into<String>) -> Self {
        Self { cuda_arch: arch.into(), ..self }
    }
}

impl Client {
    /// Translates the kernels of a Python module to CUDA C++ and WebAssembly.
    ///
    /// ```no_run
    /// # async fn run(client: accelerd_client::Client) -> Result<(), accelerd_client::Error> {
    /// use accelerd_client::TranslateOptions;
    ///
    /// let source = "def f(x: float, y: float) -> float:\n    return 2.0 * x + y\n";
    /// let translation = client.translate(source, &TranslateOptions::default()).await?;
    /// assert_eq!(translation.kernels[0].files[0].name, "f.cu");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn translate(&self, source: impl Into<String>, options: &TranslateOptions) -> Result<Translation> {
        let TranslateOptions { dialect, constants, names, targets, cuda_arch } = options.clone();
        let (source, dialect) = (source.into(), dialect.into());
        let request = proto::TranslateRequest { source, dialect, constants, names, targets, cuda_arch };
        let reply = self.unary(kernel_service::TRANSLATE, request).await?;
        let proto::TranslateResponse { kernels, diagnostics } = reply.message;
        Ok(Translation { kernels, diagnostics, timings: reply.timings })
    }
}
