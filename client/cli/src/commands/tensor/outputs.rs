//! Results of a graph: the files they are written to, and their printed form.

use std::path::{Path, PathBuf};

use accelerd_client::{ResidentTensor, proto::Tensor};
use serde::Serialize;

use super::kept::Kept;
use crate::{
    error::{CliError, Result},
    format::shape,
    npy,
    operand::is_safetensors,
    output::Report,
    renderer::{Renderer, Style, Table},
    returned::Returned,
    safetensors_file,
};

/// The files to write results to.
pub(super) enum Files {
    None,
    /// One for each result.
    Npy(Vec<PathBuf>),
    /// One for all, by their names.
    Safetensors(PathBuf),
}

impl Files {
    pub(super) fn new(paths: &[PathBuf]) -> Result<Self> {
        let is_npy = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "npy");
        match paths {
            [] => Ok(Self::None),
            [path] if is_safetensors(path) => Ok(Self::Safetensors(path.clone())),
            paths if paths.iter().all(is_npy) => Ok(Self::Npy(paths.to_vec())),
            _ => Err(CliError::Usage(
                "expected one .npy file for each result, or one .safetensors file for all, as --output".to_owned(),
            )),
        }
    }

    /// Refuses a number of results that has too many or too few files.
    pub(super) fn check(&self, results: usize) -> Result {
        match self {
            Self::Npy(paths) if paths.len() != results => {
                let reason = format!("expected {results} .npy files as --output, got {}", paths.len());
                Err(CliError::Usage(reason))
            }
            Self::None | Self::Npy(_) | Self::Safetensors(_) => Ok(()),
        }
    }

    pub(super) fn write(&self, names: &[String], tensors: &[Tensor]) -> Result {
        match self {
            Self::None => Ok(()),
            Self::Npy(paths) => {
                paths.iter().zip(tensors).try_for_each(|(path, tensor)| npy::write_tensor(path, tensor))
            }
            Self::Safetensors(path) => safetensors_file::write(path, names.iter().map(String::as_str).zip(tensors)),
        }
    }

    fn of(&self, nth: usize) -> Option<&Path> {
        match self {
            Self::None => None,
            Self::Npy(paths) => paths.get(nth).map(PathBuf::as_path),
            Self::Safetensors(path) => Some(path),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Results {
    results: Vec<Returned>,
}

impl Results {
    pub(super) fn new(names: &[String], tensors: &[Tensor], files: &Files) -> Self {
        let named = names.iter().zip(tensors).enumerate();
        Self { results: named.map(|(nth, (name, tensor))| Returned::new(name, tensor, files.of(nth))).collect() }
    }
}

impl Report for Results {
    fn render(&self, renderer: &mut Renderer) {
        Returned::render(&self.results, renderer);
    }
}

/// Results that stay on the device.
#[derive(Serialize)]
pub(super) struct KeptResults {
    results: Vec<KeptResult>,
}

#[derive(Serialize)]
struct KeptResult {
    name: String,
    #[serde(flatten)]
    kept: Kept,
}

impl KeptResults {
    pub(super) fn new(names: &[String], kept: Vec<ResidentTensor>) -> Self {
        let named = |(name, kept): (&String, ResidentTensor)| KeptResult { name: name.clone(), kept: kept.into() };
        Self { results: names.iter().zip(kept).map(named).collect() }
    }
}

impl Report for KeptResults {
    fn render(&self, renderer: &mut Renderer) {
        let mut table = Table::new(["<result", "<handle", "<type", "<shape", "<device"]);
        for KeptResult { name, kept } in &self.results {
            let handle = renderer.style(Style::Name, &kept.handle);
            table.row([name.clone(), handle, kept.dtype.to_owned(), shape(&kept.shape), kept.device.clone()]);
        }
        renderer.table(&table);
    }
}
