//! Shell completions and man pages, made from the command line itself.

use std::{fs, path::PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

use crate::{
    error::{CliError, Result},
    screen::{self, Screen},
};

/// Print completions for a shell.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Write man pages.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder to write them to; made if need be.
    folder: PathBuf,
}

/// Prints completions for a program.
pub fn completions(args: &CompletionsArgs, program: &mut Command) -> Result {
    let mut script = vec![];
    clap_complete::generate(args.shell, program, "accelctl", &mut script);
    screen::write(&script)
}

/// Writes a page for a program and one for each of its commands.
pub fn man(args: &ManArgs, program: Command, screen: &Screen) -> Result {
    fs::create_dir_all(&args.folder).map_err(CliError::file(&args.folder))?;
    clap_mangen::generate_to(program, &args.folder).map_err(CliError::file(&args.folder))?;
    screen.note(format!("wrote man pages to {}", args.folder.display()));
    Ok(())
}
