//! `accelerd kernels`: fills the compiled-kernel cache, so that a daemon starts without compiling.

use std::{path::PathBuf, process::ExitCode};

use accelerd::Config;
use accelerd_kernels::{
    LoadProgress,
    cuda::{Arch, CompiledModule, KernelFolder, compile_kernels},
    ops,
};
use clap::Args;

use super::output::{INVALID_SETTINGS, fail, print};

/// Target architectures and cache.
#[derive(Debug, Args)]
pub(super) struct Build {
    /// Architectures to compile for; defaults to all supported ones.
    #[arg(long, value_delimiter = ',', value_name = "sm_80,sm_90", default_values_t = Arch::SUPPORTED)]
    arch: Vec<Arch>,
    /// Compile for an installation, whose daemons may have any version of NVRTC. The packages have these kernels in
    /// share/accelerd/kernels.
    #[arg(long, requires = "cache")]
    installation: bool,
    /// Directory of the cache; defaults to cuda.kernel_cache.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl Build {
    pub(super) fn run(&self, config: &Config) -> ExitCode {
        let configured = || Some(config.cuda.kernel_cache.clone()).filter(|folder| !folder.as_os_str().is_empty());
        let Some(cache) = self.cache.clone().or_else(configured) else {
            return fail(&"no cache directory: set --cache or cuda.kernel_cache", INVALID_SETTINGS);
        };
        let kind = if self.installation { KernelFolder::Installation } else { KernelFolder::Cache };
        let progress = LoadProgress::default();
        match compile_kernels(&ops::modules(), &self.arch, kind, &cache, &config.cuda.library_path, &progress) {
            Ok(built) => print(lines(&built).join("\n")),
            Err(error) => fail(&error, 1),
        }
    }
}

fn lines(built: &[CompiledModule]) -> Vec<String> {
    let line = |CompiledModule { module, arch, bytes, cached }: &CompiledModule| {
        let origin = if *cached { "cached" } else { "compiled" };
        format!("{arch} {module}: {bytes} bytes, {origin}")
    };
    built.iter().map(line).collect()
}
