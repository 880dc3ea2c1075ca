//! Kernels: translates them, runs and measures them, and manages those that the daemon keeps.

mod bench;
mod evaluate;
mod fault;
mod kept;
mod launch;
mod mismatch;
mod report;
mod run;
mod translate;

pub(super) use translate::Target;

use std::{
    fs,
    path::{Component, Path},
};

use accelerd_client::{Client, KernelConstant, proto::KernelDialect};
use clap::{Args, Subcommand};

use crate::{
    error::{CliError, Result},
    output::Output,
};

/// Translate, run and measure numeric programs.
#[derive(Debug, Args)]
pub struct KernelArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Translate(translate::TranslateArgs),
    Run(run::RunArgs),
    Bench(bench::BenchArgs),
    Evaluate(evaluate::EvaluateArgs),
    /// List the compiled kernels, the most recently used first.
    List,
    Evict(kept::EvictArgs),
}

/// The language whose semantics operators and functions have.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Dialect {
    /// NVIDIA Warp.
    Warp,
    /// CPython.
    Python,
}

impl From<Dialect> for KernelDialect {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Warp => Self::Warp,
            Dialect::Python => Self::Python,
        }
    }
}

pub async fn run(args: KernelArgs, client: &Client, output: &Output) -> Result {
    match args.command {
        Command::Translate(args) => translate::run(args, client, output).await,
        Command::Run(args) => run::run(args, client, output).await,
        Command::Bench(args) => bench::run(args, client, output).await,
        Command::Evaluate(args) => evaluate::run(args, client, output).await,
        Command::List => kept::list(client, output).await,
        Command::Evict(args) => kept::evict(args, client, output).await,
    }
}

/// The text of a module.
pub(super) fn source(path: &Path) -> Result<String> {
    let source = fs::read(path).map_err(CliError::file(path))?;
    String::from_utf8(source).map_err(|error| CliError::Format { path: path.to_owned(), reason: error.to_string() })
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

/// A name that stays in its folder, whatever the daemon says.
pub(super) fn plain(name: &str) -> Result<&str> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(CliError::Partial(format!("the daemon names a file {name:?}, which is not written"))),
    }
}
