//! Translates kernels: reads a module, writes the files of its translations.

use std::{
    fs,
    path::{Path, PathBuf},
};

use accelerd_client::{
    Client, KernelConstant, TranslateOptions,
    proto::{KernelFile, KernelTarget, TranslatedKernel},
};
use clap::{Args, ValueHint};

use super::{Dialect, constant, plain, report, source};
use crate::{
    error::{CliError, Result},
    output::Output,
};

/// Translate the kernels of a Python file to CUDA C++ and WebAssembly.
///
/// Kernels are functions with the decorators of NVIDIA Warp, or annotated functions, which are mapped over rows. The files of each kernel are
/// written to a folder of its name in the folder of --output. The exit code is 1 if a kernel is outside the language.
#[derive(Debug, Args)]
pub(super) struct TranslateArgs {
    /// The Python file.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Folder to write to; without it, nothing is written.
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
    /// Dialect of the source [default: by the decorators].
    #[arg(long, value_enum)]
    dialect: Option<Dialect>,
    /// Translate this kernel only; can be repeated.
    #[arg(long = "kernel", value_name = "NAME")]
    kernels: Vec<String>,
    /// Translate to this target only; can be repeated [default: cuda and wasm].
    #[arg(long = "target", value_enum, value_name = "TARGET")]
    targets: Vec<Target>,
    /// Architecture of PTX, such as sm_90 [default: that of the daemon's GPU, or else sm_75].
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,
    /// Define a name that the module does not define; can be repeated.
    #[arg(long = "constant", value_name = "NAME=VALUE", value_parser = constant)]
    constants: Vec<(String, KernelConstant)>,
}

/// A target language of translations.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(in crate::commands) enum Target {
    /// CUDA C++.
    Cuda,
    /// WebAssembly.
    Wasm,
    /// PTX, with a report of the resources that it needs.
    Ptx,
}

impl From<Target> for KernelTarget {
    fn from(target: Target) -> Self {
        match target {
            Target::Cuda => Self::Cuda,
            Target::Wasm => Self::Wasm,
            Target::Ptx => Self::Ptx,
        }
    }
}

pub(super) async fn run(args: TranslateArgs, client: &Client, output: &Output) -> Result {
    let translation = client.translate(source(&args.file)?, &args.options()).await?;
    if let Some(folder) = &args.output {
        translation.kernels.iter().try_for_each(|kernel| write(folder, kernel))?;
    }
    output.show(&report::Translations::of(&args.file, &translation))?;
    match translation.diagnostics.len() {
        0 => Ok(()),
        _ => Err(CliError::Untranslated),
    }
}

impl TranslateArgs {
    fn options(&self) -> TranslateOptions {
        let mut options = TranslateOptions::default();
        if let Some(dialect) = self.dialect {
            options = options.dialect(dialect.into());
        }
        for target in &self.targets {
            options = options.target((*target).into());
        }
        if let Some(arch) = &self.arch {
            options = options.cuda_arch(arch);
        }
        options = self.kernels.iter().fold(options, TranslateOptions::kernel);
        self.constants.iter().fold(options, |options, (name, value)| options.constant(name, *value))
    }
}

/// Writes the files of a kernel to a folder of its name.
fn write(folder: &Path, kernel: &TranslatedKernel) -> Result {
    let folder = folder.join(plain(&kernel.name)?);
    fs::create_dir_all(&folder).map_err(CliError::file(&folder))?;
    for KernelFile { name, content } in &kernel.files {
        let path = folder.join(plain(name)?);
        fs::write(&path, content).map_err(CliError::file(&path))?;
    }
    Ok(())
}
