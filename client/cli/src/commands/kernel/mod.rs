//! Translates kernels: reads modules, writes the files of their translations.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use accelerd_client::{
    Client, KernelConstant, TranslateOptions,
    proto::{KernelDialect, KernelFile, KernelTarget, TranslatedKernel},
};
use clap::{Args, Subcommand, ValueHint};

use crate::{
    error::{CliError, Result},
    output::Output,
};

mod report;

/// Translate numeric programs.
#[derive(Debug, Args)]
pub struct KernelArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Translate(TranslateArgs),
}

/// Translate the kernels of a Python file to CUDA C++ and WebAssembly.
///
/// Kernels are functions with the decorators of NVIDIA Warp, or annotated functions, which are mapped over rows. The files of each kernel are
/// written to a folder of its name in the folder of --output. The exit code is 1 if a kernel is outside the language.
#[derive(Debug, Args)]
struct TranslateArgs {
    /// The Python file.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Folder to write to; without it, nothing is written.
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
    /// What operators and functions mean [default: by the decorators].
    #[arg(long, value_enum)]
    dialect: Option<Dialect>,
    /// Translate this kernel only; can be repeated.
    #[arg(long = "kernel", value_name = "NAME")]
    kernels: Vec<String>,
    /// Translate to this target only; can be repeated.
    #[arg(long = "target", value_enum, value_name = "TARGET")]
    targets: Vec<Target>,
    /// Define a name that the module does not define; can be repeated.
    #[arg(long = "constant", value_name = "NAME=VALUE", value_parser = constant)]
    constants: Vec<(String, KernelConstant)>,
}

/// What operators and functions mean.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Dialect {
    /// NVIDIA Warp.
    Warp,
    /// CPython.
    Python,
}

/// What kernels are translated to.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Target {
    /// CUDA C++.
    Cuda,
    /// WebAssembly.
    Wasm,
}

pub async fn run(args: KernelArgs, client: &Client, output: &Output) -> Result {
    match args.command {
        Command::Translate(args) => translate(args, client, output).await,
    }
}

async fn translate(args: TranslateArgs, client: &Client, output: &Output) -> Result {
    let source = fs::read(&args.file).map_err(CliError::file(&args.file))?;
    let source = String::from_utf8(source)
        .map_err(|error| CliError::Format { path: args.file.clone(), reason: error.to_string() })?;
    let translation = client.translate(source, &args.options()).await?;
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
        options = match self.dialect {
            Some(Dialect::Warp) => options.dialect(KernelDialect::Warp),
            Some(Dialect::Python) => options.dialect(KernelDialect::Python),
            None => options,
        };
        for target in &self.targets {
            options = options.target(match target {
                Target::Cuda => KernelTarget::Cuda,
                Target::Wasm => KernelTarget::Wasm,
            });
        }
        options = self.kernels.iter().fold(options, TranslateOptions::kernel);
        self.constants.iter().fold(options, |options, (name, value)| options.constant(name, *value))
    }
}

/// `NAME=VALUE`, of which the value is an integer, a number, True or False.
fn constant(argument: &str) -> Result<(String, KernelConstant), String> {
    let (name, value) = argument.split_once('=').ok_or("expected NAME=VALUE")?;
    let value = match (value, value.parse::<i64>(), value.parse::<f64>()) {
        ("True" | "true", ..) => true.into(),
        ("False" | "false", ..) => false.into(),
        (_, Ok(integer), _) => integer.into(),
        (_, _, Ok(number)) => number.into(),
        _ => return Err(format!("expected an integer, a number, True or False, got {value:?}")),
    };
    Ok((name.to_owned(), value))
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

/// A name that stays in its folder, whatever the daemon says.
fn plain(name: &str) -> Result<&str> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(CliError::Partial(format!("the daemon names a file {name:?}, which is not written"))),
    }
}
