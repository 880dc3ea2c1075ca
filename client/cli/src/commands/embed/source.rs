//! Texts from arguments, a file or standard input, read ahead in batches.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    thread,
};

use tokio::sync::mpsc;

use crate::error::{CliError, Result};

/// Texts of one batch, at most.
const BATCH: usize = 512;
/// Bytes of one batch, about.
const BATCH_BYTES: usize = 1 << 20;

/// Where texts come from.
pub struct Texts {
    /// Texts; `-` is standard input.
    pub given: Vec<String>,
    /// A file with one text a line.
    pub file: Option<PathBuf>,
}

/// Batches that are read on a thread of their own.
pub struct Batches {
    pub batches: mpsc::Receiver<Vec<String>>,
    reader: thread::JoinHandle<Result>,
}

impl Texts {
    /// Starts to read. The thread is no one's to wait for where standard input never ends.
    pub fn read(self) -> Batches {
        let (to, batches) = mpsc::channel(2);
        let reader = thread::spawn(move || self.send(&mut Filling { to, batch: vec![], bytes: 0 }));
        Batches { batches, reader }
    }

    fn send(self, to: &mut Filling) -> Result {
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
    /// Once all batches were taken: whether that was because there are no more.
    pub fn end(self) -> Result {
        drop(self.batches);
        self.reader.join().map_err(|_| CliError::Partial("the reader failed".into()))?
    }
}

fn lines(path: &Path, from: impl BufRead, to: &mut Filling) -> Result {
    for line in from.lines() {
        to.add(line.map_err(CliError::file(path))?);
    }
    Ok(())
}

/// A batch that is being filled.
struct Filling {
    to: mpsc::Sender<Vec<String>>,
    batch: Vec<String>,
    bytes: usize,
}

impl Filling {
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
            // Where nobody takes it any more, that has its reason, which is told elsewhere.
            let _gone = self.to.blocking_send(batch);
        }
    }
}
