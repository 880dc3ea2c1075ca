//! A data set on disk: its parameters in `dataset.json`, and its pairs in a file of JSON lines for each split, or a folder for each pair.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, ErrorKind, Write},
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

use super::record::Record;
use crate::{
    commands::kernel::plain,
    error::{CliError, Result},
};

/// Name of the file of parameters.
const PARAMETERS: &str = "dataset.json";
/// Name of the file in a pair's folder that describes the pair. It is written last.
const PAIR: &str = "pair.json";
/// Splits, in the order in which they are read.
const SPLITS: [&str; 3] = ["train", "validation", "test"];

/// The file layout of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Layout {
    /// `train.jsonl`, `validation.jsonl` and `test.jsonl`, with one pair on each line.
    Jsonl,
    /// `SPLIT/CATEGORY/NAME/`, with the files of a pair.
    Folders,
}

/// The parameters that determine the pairs of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Parameters {
    pub(super) layout: Layout,
    pub(super) seed: u64,
    /// Empty for all.
    pub(super) categories: Vec<String>,
    /// Empty for both.
    pub(super) dialects: Vec<String>,
    /// Empty for CUDA C++ and WebAssembly.
    pub(super) targets: Vec<String>,
    pub(super) validation_percent: u32,
    pub(super) test_percent: u32,
}

/// A data set on disk.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    pub(super) parameters: Parameters,
}

impl Folder {
    /// A data set that is there.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = path.join(PARAMETERS);
        let text = fs::read_to_string(&file).map_err(CliError::file(&file))?;
        let parameters = serde_json::from_str(&text).map_err(|error| invalid(&file, &error))?;
        Ok(Self { path: path.to_owned(), parameters })
    }

    /// A data set with these parameters: a new one, or one that is there.
    pub(super) fn create(path: &Path, parameters: Parameters) -> Result<Self> {
        match Self::open(path) {
            Ok(existing) if existing.parameters == parameters => Ok(existing),
            Ok(existing) => Err(CliError::Usage(format!(
                "{} has a data set with other parameters: {}",
                path.display(),
                serde_json::to_string(&existing.parameters).unwrap_or_default()
            ))),
            Err(CliError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(path).map_err(CliError::file(path))?;
                let file = path.join(PARAMETERS);
                let text = serde_json::to_string_pretty(&parameters).map_err(|error| invalid(&file, &error))?;
                fs::write(&file, text + "\n").map_err(CliError::file(&file))?;
                Ok(Self { path: path.to_owned(), parameters })
            }
            Err(error) => Err(error),
        }
    }

    /// Visits all pairs.
    pub(super) fn for_each(&self, mut visit: impl FnMut(Record) -> Result) -> Result {
        for split in SPLITS {
            match self.parameters.layout {
                Layout::Jsonl => read_lines(&self.lines(split), &mut visit)?,
                Layout::Folders => read_folders(&self.path.join(split), &mut visit)?,
            }
        }
        Ok(())
    }

    /// Drops the incomplete last pairs of an interrupted run.
    pub(super) fn repair(&self) -> Result {
        if self.parameters.layout == Layout::Folders {
            return Ok(());
        }
        SPLITS.iter().try_for_each(|split| truncate(&self.lines(split)))
    }

    /// Adds a pair.
    pub(super) fn append(&self, record: &Record) -> Result {
        match self.parameters.layout {
            Layout::Jsonl => self.append_line(record),
            Layout::Folders => self.write_folder(record),
        }
    }

    fn lines(&self, split: &str) -> PathBuf {
        self.path.join(format!("{split}.jsonl"))
    }

    fn append_line(&self, record: &Record) -> Result {
        let path = self.lines(known_split(&self.path, &record.split)?);
        let mut line = serde_json::to_vec(record).map_err(|error| invalid(&path, &error))?;
        line.push(b'\n');
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(&line)).map_err(CliError::file(&path))
    }

    fn write_folder(&self, record: &Record) -> Result {
        let split = known_split(&self.path, &record.split)?;
        let folder = self.path.join(split).join(plain(&record.category)?).join(plain(&record.name)?);
        fs::create_dir_all(&folder).map_err(CliError::file(&folder))?;
        let write = |name: &str, content: &[u8]| {
            let path = folder.join(plain(name)?);
            fs::write(&path, content).map_err(CliError::file(&path))
        };
        write("source.py", record.source.as_bytes())?;
        for (name, text) in &record.files {
            write(name, text.as_bytes())?;
        }
        for (name, encoded) in &record.binary_files {
            write(name, &decode(&folder, encoded)?)?;
        }
        let described = Record { files: [].into(), binary_files: [].into(), ..record.clone() };
        let text = serde_json::to_string_pretty(&described).map_err(|error| invalid(&folder, &error))?;
        write(PAIR, (text + "\n").as_bytes())
    }
}

fn known_split<'a>(path: &Path, split: &'a str) -> Result<&'a str> {
    let reason = || format!("expected a pair for training, validation or test, got {split:?}");
    let is_known = SPLITS.contains(&split);
    is_known.then_some(split).ok_or_else(|| CliError::Format { path: path.to_owned(), reason: reason() })
}

fn decode(path: &Path, encoded: &str) -> Result<Vec<u8>> {
    let decoded = BASE64_STANDARD.decode(encoded);
    decoded.map_err(|error| CliError::Format { path: path.to_owned(), reason: error.to_string() })
}

fn read_lines(path: &Path, visit: &mut impl FnMut(Record) -> Result) -> Result {
    let Some(file) = open(path)? else { return Ok(()) };
    for (nth, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(CliError::file(path))?;
        let record = serde_json::from_str(&line).map_err(|error| CliError::Format {
            path: path.to_owned(),
            reason: format!("line {}: {error}", nth + 1),
        })?;
        visit(record)?;
    }
    Ok(())
}

/// Cuts off a last line that has no end.
fn truncate(path: &Path) -> Result {
    let Some(file) = open(path)? else { return Ok(()) };
    let mut reader = BufReader::new(file);
    let mut line = vec![];
    let mut whole = 0;
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(CliError::file(path))?;
        if line.last() != Some(&b'\n') {
            break;
        }
        whole += read as u64;
    }
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(|file| file.set_len(whole)).map_err(CliError::file(path))
}

fn open(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliError::file(path)(error)),
    }
}

fn read_folders(split: &Path, visit: &mut impl FnMut(Record) -> Result) -> Result {
    for category in entries(split)? {
        for pair in entries(&category)? {
            let path = pair.join(PAIR);
            let Some(file) = open(&path)? else { continue };
            let mut record: Record =
                serde_json::from_reader(BufReader::new(file)).map_err(|error| invalid(&path, &error))?;
            for file in entries(&pair)?.into_iter().filter(|file| *file != path) {
                let content = fs::read(&file).map_err(CliError::file(&file))?;
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if name == "source.py" {
                    record.source = String::from_utf8_lossy(&content).into_owned();
                } else {
                    record.add_file(name, content);
                }
            }
            visit(record)?;
        }
    }
    Ok(())
}

/// The entries of a folder by name; none if it is not there.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(CliError::file(folder))?,
    };
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(CliError::file(folder))?;
    paths.sort();
    Ok(paths)
}

fn invalid(path: &Path, error: &serde_json::Error) -> CliError {
    CliError::Format { path: path.to_owned(), reason: error.to_string() }
}
