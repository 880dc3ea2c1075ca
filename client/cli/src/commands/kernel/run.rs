//! Runs a kernel on arrays of files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use accelerd_client::{Client, Kernel, LaunchOutcome, proto::Tensor};
use clap::{Args, ValueHint};
use serde::Serialize;

use super::{fault::FaultReport, launch::LaunchArgs, plain};
use crate::{
    error::{CliError, Result},
    format, npy,
    operand::is_safetensors,
    output::{Output, Report},
    renderer::{Renderer, Style},
    returned::Returned,
    safetensors_file,
};

/// Run a kernel of a Python file.
///
/// `accelctl kernel run saxpy.py --arg x=x.npy --arg a=2 --shape y=1000 --grid 1000 --output y=y.npy`. A kernel that does what its dialect
/// forbids, such as an access outside of an array, ends with a fault: it is shown with its place in the file, and the exit code is 1.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    launch: LaunchArgs,
    /// Where results are written: a folder, to which each is written as NAME.npy, or a .npy or .safetensors file of one; can be repeated. With
    /// files only, their arrays alone are returned.
    #[arg(long = "output", short, value_name = "FOLDER|NAME=FILE", value_parser = destination, value_hint = ValueHint::AnyPath)]
    outputs: Vec<Destination>,
}

#[derive(Clone, Debug, PartialEq)]
enum Destination {
    Folder(PathBuf),
    File { name: String, path: PathBuf },
}

fn destination(text: &str) -> Result<Destination, String> {
    let Some((name, path)) = text.split_once('=') else { return Ok(Destination::Folder(text.into())) };
    let path = PathBuf::from(path);
    let is_file = path.extension().is_some_and(|extension| extension == "npy") || is_safetensors(&path);
    if name.is_empty() || !is_file {
        return Err("expected FOLDER, NAME=FILE.npy or NAME=FILE.safetensors".to_owned());
    }
    Ok(Destination::File { name: name.to_owned(), path })
}

pub(super) async fn run(args: RunArgs, client: &Client, output: &Output) -> Result {
    let kernel = client.compile(args.launch.program()?).await?;
    let outcome = client.launch(args.launch.launch(&kernel, &args.requested())?).await?;
    let files = args.write(&outcome.outputs)?;
    output.show(&Ran::new(&kernel, &outcome, &files, &args.launch.file))?;
    if outcome.fault.is_some() { Err(CliError::Fault) } else { Ok(()) }
}

impl RunArgs {
    /// The arrays to return; empty for all.
    fn requested(&self) -> Vec<&str> {
        let name = |destination| match destination {
            &Destination::Folder(_) => None,
            Destination::File { name, .. } => Some(name.as_str()),
        };
        self.outputs.iter().map(name).collect::<Option<_>>().unwrap_or_default()
    }

    /// Writes the arrays, and returns their files.
    fn write<'a>(&self, arrays: &'a BTreeMap<String, Tensor>) -> Result<BTreeMap<&'a str, PathBuf>> {
        let mut files = BTreeMap::new();
        for (name, tensor) in arrays {
            if let Some(path) = self.path(name)? {
                write(&path, name, tensor)?;
                files.insert(name.as_str(), path);
            }
        }
        Ok(files)
    }

    fn path(&self, array: &str) -> Result<Option<PathBuf>> {
        let mut folder = None;
        for destination in &self.outputs {
            match destination {
                Destination::File { name, path } if name == array => return Ok(Some(path.clone())),
                Destination::File { .. } => {}
                Destination::Folder(path) => folder = Some(path),
            }
        }
        let Some(folder) = folder else { return Ok(None) };
        fs::create_dir_all(folder).map_err(CliError::file(folder))?;
        Ok(Some(folder.join(plain(&format!("{array}.npy"))?)))
    }
}

fn write(path: &Path, name: &str, tensor: &Tensor) -> Result {
    if is_safetensors(path) { safetensors_file::write(path, [(name, tensor)]) } else { npy::write_tensor(path, tensor) }
}

#[derive(Serialize)]
struct Ran {
    kernel: String,
    id: String,
    execution_ms: f64,
    outputs: Vec<Returned>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<FaultReport>,
    #[serde(skip)]
    execution: String,
}

impl Ran {
    fn new(kernel: &Kernel, outcome: &LaunchOutcome, files: &BTreeMap<&str, PathBuf>, file: &Path) -> Self {
        let returned = |(name, tensor): (&String, &Tensor)| {
            Returned::new(name, tensor, files.get(name.as_str()).map(PathBuf::as_path))
        };
        Self {
            kernel: kernel.name.clone(),
            id: kernel.id.clone(),
            execution_ms: outcome.execution_time.as_secs_f64() * 1e3,
            outputs: outcome.outputs.iter().map(returned).collect(),
            fault: outcome.fault.as_ref().map(|fault| FaultReport::new(file, fault)),
            execution: format::time(outcome.execution_time),
        }
    }
}

impl Report for Ran {
    fn render(&self, renderer: &mut Renderer) {
        if let Some(fault) = &self.fault {
            return fault.render(renderer);
        }
        Returned::render(&self.outputs, renderer);
        let kernel = renderer.style(Style::Name, &self.kernel);
        renderer.line(format!("{kernel} ran for {}", self.execution));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_folder_or_the_file_of_an_array() {
        assert_eq!(destination("out.npy"), Ok(Destination::Folder("out.npy".into())));
        assert_eq!(destination("y=a/b.npy"), Ok(Destination::File { name: "y".into(), path: "a/b.npy".into() }));
        assert!(destination("y=b.txt").is_err() && destination("=b.npy").is_err());
    }
}
