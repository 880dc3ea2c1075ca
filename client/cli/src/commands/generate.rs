//! Shell completions and man pages, made from the command line itself.

use std::{fs, path::PathBuf};

use clap::{Args, Command};
use clap_complete::{Shell, env::Shells};

use crate::{
    error::{CliError, Result},
    screen::{self, Screen},
};

/// Print the script by which a shell completes commands, options, and names of collections and models.
///
/// The script asks this program at each completion, and the program asks the daemon, for a moment at most.
/// bash: `source <(accelctl completions bash)`; zsh: `source <(accelctl completions zsh)`; fish: `accelctl completions fish | source`.
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

/// Prints what a shell needs to complete this program.
pub fn completions(args: &CompletionsArgs) -> Result {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells.completer(&name).ok_or_else(|| CliError::Usage(format!("{name} has no completions")))?;
    let mut script = vec![];
    shell.write_registration("COMPLETE", "accelctl", "accelctl", "accelctl", &mut script).map_err(CliError::Output)?;
    screen::write(&script)
}

/// Writes a page for a program and one for each of its commands.
pub fn man(args: &ManArgs, program: Command, screen: &Screen) -> Result {
    fs::create_dir_all(&args.folder).map_err(CliError::file(&args.folder))?;
    clap_mangen::generate_to(program, &args.folder).map_err(CliError::file(&args.folder))?;
    screen.note(format!("wrote man pages to {}", args.folder.display()));
    Ok(())
}
