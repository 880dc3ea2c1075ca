//! Generates shell completions and man pages.

use std::{fs, path::PathBuf};

use clap::{Args, Command};
use clap_complete::{Shell, env::Shells};

use crate::{
    error::{CliError, Result},
    output::{self, Output},
};

/// Print a shell script that completes commands, options, and names of collections and models.
///
/// The script calls this program at each completion, and the program queries the daemon with a short timeout.
/// bash: `source <(accelctl completions bash)`; zsh: `source <(accelctl completions zsh)`; fish: `accelctl completions fish | source`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Write man pages.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Output folder; created if it does not exist.
    folder: PathBuf,
}

/// Prints the completion script of a shell.
pub fn completions(args: &CompletionsArgs) -> Result {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let shell =
        shells.completer(&name).ok_or_else(|| CliError::Usage(format!("completions for {name} are not supported")))?;
    let mut script = vec![];
    shell.write_registration("COMPLETE", "accelctl", "accelctl", "accelctl", &mut script).map_err(CliError::Output)?;
    output::write_script(&script)
}

/// Writes a man page for the program and one for each command.
pub fn man(args: &ManArgs, program: Command, output: &Output) -> Result {
    fs::create_dir_all(&args.folder).map_err(CliError::file(&args.folder))?;
    clap_mangen::generate_to(program, &args.folder).map_err(CliError::file(&args.folder))?;
    output.note(format!("wrote man pages to {}", args.folder.display()));
    Ok(())
}
