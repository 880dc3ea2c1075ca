//! Operands of operations: tensors of files, and resident tensors.

use std::path::{Path, PathBuf};

use accelerd_client::{ResidentTensor, proto::Tensor};

use crate::{
    error::{CliError, Result},
    npy, safetensors_file,
};

/// Precedes handles on the command line.
const HANDLE: &str = "handle:";

/// Extension of safetensors files.
const SAFETENSORS: &str = ".safetensors";

/// An operand as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    Npy(PathBuf),
    /// A tensor of a safetensors file; without a name the only one.
    Safetensors {
        path: PathBuf,
        name: Option<String>,
    },
    Handle(String),
}

/// An operand that was read.
pub enum Source {
    Value(Tensor),
    Handle(String),
}

impl Operand {
    pub fn parse(text: &str) -> Result<Self> {
        if let Some(handle) = text.strip_prefix(HANDLE) {
            return Ok(Self::Handle(handle.to_owned()));
        }
        if let Some((path, name)) = text.split_once(&format!("{SAFETENSORS}:")) {
            let path = format!("{path}{SAFETENSORS}").into();
            let name = Some(name.to_owned());
            return Ok(Self::Safetensors { path, name });
        }
        if is_safetensors(Path::new(text)) {
            return Ok(Self::Safetensors { path: text.into(), name: None });
        }
        if Path::new(text).extension().is_some_and(|extension| extension == "npy") {
            return Ok(Self::Npy(text.into()));
        }
        let expected = "expected FILE.npy, FILE.safetensors:NAME or handle:HANDLE";
        Err(CliError::Usage(format!("{expected}, got {text:?}")))
    }

    pub fn read(&self) -> Result<Source> {
        match self {
            Self::Npy(path) => npy::read_tensor(path).map(Source::Value),
            Self::Safetensors { path, name } => safetensors_file::read(path, name.as_deref()).map(Source::Value),
            Self::Handle(handle) => Ok(Source::Handle(handle.clone())),
        }
    }
}

/// Returns true if a path is that of a safetensors file, by its extension.
pub fn is_safetensors(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "safetensors")
}

/// A resident tensor of which only the handle is known, with or without the prefix of handles.
pub fn resident(handle: &str) -> ResidentTensor {
    let handle = handle.strip_prefix(HANDLE).unwrap_or(handle);
    ResidentTensor { handle: handle.to_owned(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_files_by_their_extension_or_handles() {
        let parsed = |text: &str| Operand::parse(text).unwrap();
        assert_eq!(parsed("a/b.npy"), Operand::Npy("a/b.npy".into()));
        assert_eq!(parsed("handle:ab12"), Operand::Handle("ab12".into()));
        let stored =
            |name: Option<&str>| Operand::Safetensors { path: "m.safetensors".into(), name: name.map(str::to_owned) };
        assert_eq!((parsed("m.safetensors"), parsed("m.safetensors:l.0:w")), (stored(None), stored(Some("l.0:w"))));
        let refused = Operand::parse("a.txt").unwrap_err().to_string();
        assert!(refused.contains("FILE.npy") && refused.contains("a.txt"), "{refused}");
    }
}
