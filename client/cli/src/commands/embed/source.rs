//! Reads texts from arguments, a file or standard input, in batches and ahead of the stream.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    thread,
};

use tokio::sync::mpsc;

use crate::error::{CliError, Result};

/// Maximum texts per batch.
const BATCH: usize = 512;
/// Approximate maximum bytes per batch.
const BATCH_BYTES: usize = 1 << 20;

/// Sources of texts.
pub struct Texts {
    /// Texts; `-` is standard input.
    pub given: Vec<String>,
    /// A file with one text per line.
    pub file: Option<PathBuf>,
}

/// Batches from a reader thread.
pub struct Batches {
    pub batches: mpsc::Receiver<Vec<String>>,
    reader: thread::JoinHandle<Result>,
}

impl Texts {
    /// Starts the reader thread. It is detached unless `end` joins it, since standard input may never end.
    pub fn read(self) -> Batches {
        let (to, batches) = mpsc::channel(2);
        let reader = thread::spawn(move || self.send(&mut BatchBuilder { to, batch: vec![], bytes: 0 }));
        Batches { batches, reader }
    }

    fn send(self, to: &mut BatchBuilder) -> Result {
        for text in self.given {
            if text == "-" { lines(Path::new("-"), io::stdin().lock(), to)? } else { to.add(text) }
        }
        if let Some(path) = self.file {
            let file = File::open(&path).map_err(CliError::file(&path))?;
            lines(&path, BufReader::new(file), to)?;
        }
        to.send();
        Ok(())
    }
}

impl Batches {
    /// Joins the reader after the last batch. Returns its error, if it failed.
    pub fn end(self) -> Result {
        drop(self.batches);
        self.reader.join().map_err(|_| CliError::Partial("the reader failed".into()))?
    }
}

fn lines(path: &Path, from: impl BufRead, to: &mut BatchBuilder) -> Result {
    for line in from.lines() {
        to.add(line.map_err(CliError::file(path))?);
    }
    Ok(())
}

/// Collects texts into batches.
struct BatchBuilder {
    to: mpsc::Sender<Vec<String>>,
    batch: Vec<String>,
    bytes: usize,
}

impl BatchBuilder {
    fn add(&mut self, text: String) {
        self.bytes += text.len();
        self.batch.push(text);
        if self.batch.len() >= BATCH || self.bytes >= BATCH_BYTES {
            self.send();
        }
    }

    fn send(&mut self) {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
            // The receiver is dropped only after an error, which is reported elsewhere.
            let _dropped = self.to.blocking_send(batch);
        }
    }
}
