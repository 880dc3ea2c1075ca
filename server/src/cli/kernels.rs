//! `accelerd kernels`: fills the cache of compiled kernels, so that a daemon starts without compiling.

use std::{path::PathBuf, process::ExitCode};

use accelerd::Config;
use accelerd_kernels::cuda::{Arch, Built, build_kernels};
use clap::Args;

use super::{complain, say};

/// For which GPUs, and where to.
#[derive(Debug, Args)]
pub(super) struct Build {
    /// Architectures to compile for; all that are supported if absent.
    #[arg(long, value_delimiter = ',', value_name = "sm_80,sm_90", default_values_t = Arch::SUPPORTED)]
    arch: Vec<Arch>,
    /// Folder of the cache; the configured one if absent.
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
}

impl Build {
    pub(super) fn run(&self, config: &Config) -> ExitCode {
        let configured = || Some(config.cuda.kernel_cache.clone()).filter(|folder| !folder.as_os_str().is_empty());
        let Some(cache) = self.cache.clone().or_else(configured) else {
            return complain(&"no cache: neither --cache nor cuda.kernel_cache is given", super::WRONG_SETTINGS);
        };
        match build_kernels(&self.arch, &cache, &config.cuda.library_path) {
            Ok(built) => say(lines(&built).join("\n")),
            Err(error) => complain(&error, 1),
        }
    }
}

fn lines(built: &[Built]) -> Vec<String> {
    let line = |Built { module, arch, bytes, cached }: &Built| {
        let from = if *cached { "was there" } else { "compiled" };
        format!("{arch} {module}: {bytes} bytes, {from}")
    };
    built.iter().map(line).collect()
}
