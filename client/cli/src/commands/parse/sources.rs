//! Finds and reads the sources to parse.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::ParseArgs;
use crate::{
    error::{CliError, Result},
    walk,
};

/// CPython's name of standard input.
const STDIN: &str = "<stdin>";

/// A source to parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name in the output.
    pub name: String,
    /// Path; `None` means standard input.
    disk: Option<PathBuf>,
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

/// Finds the sources that the arguments name.
pub fn find(args: &ParseArgs) -> Result<Sources> {
    let (stdin, paths): (Vec<_>, Vec<_>) = args.paths.iter().cloned().partition(|path| path == Path::new("-"));
    let walked = walk::walk(walk::trees_as_given(&paths)?, &args.exclude, args.max_file_size)?;
    let named = |path: &str| paths.iter().any(|named| named.to_str() == Some(path));
    let wanted = walked.files.into_iter().filter(|file| named(&file.path) || is_python(&file.below));
    let file = |file: walk::File| Source { name: file.path, disk: Some(file.disk), size: file.size };
    let mut files: Vec<_> = wanted.map(file).collect();
    files.extend((!stdin.is_empty()).then(|| Source { name: STDIN.into(), disk: None, size: 0 }));
    if files.is_empty() && walked.unreadable == 0 && walked.misnamed.is_empty() {
        return Err(CliError::Usage("there is no Python file to parse".into()));
    }
    let misnamed = walked.misnamed.iter().filter(|path| is_python(path));
    let misnamed: Vec<_> = misnamed.map(|path| format!("{path}: its name is not UTF-8")).collect();
    let unreadable = walked.unreadable + misnamed.len() as u64;
    let problems = [walked.problems, misnamed].concat();
    Ok(Sources { files, too_large: walked.large.len() as u64, unreadable, problems })
}

fn is_python(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "py" || extension == "pyi")
}
