//! Finds and reads the sources to parse.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::ParseArgs;
use crate::{
    error::{CliError, Result},
    walk::{self, Walk, Walked},
};

/// CPython's name of standard input.
const STDIN: &str = "<stdin>";

/// A source to parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name in the output.
    pub name: String,
    /// Path; `None` means standard input.
    pub disk: Option<PathBuf>,
    pub size: u64,
}

/// Result of a walk.
#[derive(Debug, Default)]
pub struct Sources {
    pub files: Vec<Source>,
    pub too_large: u64,
    pub unreadable: u64,
    /// Messages about sources that cannot be read.
    pub problems: Vec<String>,
}

impl Source {
    #[cfg(test)]
    pub fn of_size(size: u64) -> Self {
        Self { name: String::new(), disk: None, size }
    }

    /// Reads the source. The error is a message.
    pub fn read(&self) -> Result<Vec<u8>, String> {
        let stdin = || {
            let mut bytes = vec![];
            io::stdin().read_to_end(&mut bytes).map(|_| bytes)
        };
        let bytes = self.disk.as_ref().map_or_else(stdin, fs::read);
        bytes.map_err(|error| format!("{}: {error}", self.name))
    }
}

/// The walk of the arguments, and whether standard input is one of them.
pub fn walk(args: &ParseArgs) -> Result<(Walk, bool)> {
    let (stdin, paths): (Vec<_>, Vec<_>) = args.paths.iter().cloned().partition(|path| path == Path::new("-"));
    Ok((Walk::new(walk::trees_as_given(&paths)?, &args.exclude, args.max_file_size)?, !stdin.is_empty()))
}

/// Finds the sources that the arguments name.
pub fn find(args: &ParseArgs) -> Result<Sources> {
    let (walk, stdin) = walk(args)?;
    let mut sources = sources(args, walk.all_files());
    sources.files.extend(stdin.then(|| Source { name: STDIN.into(), disk: None, size: 0 }));
    if sources.files.is_empty() && sources.unreadable == 0 {
        return Err(CliError::Usage("there is no Python file to parse".into()));
    }
    Ok(sources)
}

/// The Python files of a walk, and the files that are arguments.
pub fn sources(args: &ParseArgs, walked: Walked) -> Sources {
    let named = |path: &str| args.paths.iter().any(|named| named.to_str() == Some(path));
    let wanted = walked.files.into_iter().filter(|file| named(&file.path) || is_python(&file.below));
    let file = |file: walk::File| Source { name: file.path, disk: Some(file.disk), size: file.size };
    let files = wanted.map(file).collect();
    let misnamed = walked.misnamed.iter().filter(|path| is_python(path));
    let misnamed: Vec<_> = misnamed.map(|path| format!("{path}: its name is not UTF-8")).collect();
    let unreadable = walked.unreadable + misnamed.len() as u64;
    let problems = [walked.problems, misnamed].concat();
    Sources { files, too_large: walked.large.len() as u64, unreadable, problems }
}

fn is_python(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "py" || extension == "pyi")
}
