//! Makes a data set again, and compares.

use std::{collections::BTreeMap, path::PathBuf};

use accelerd_client::Client;
use clap::{Args, ValueHint};
use futures::StreamExt;
use serde::Serialize;

use super::{
    folder::Folder,
    generate::{CALL_PAIRS, Device, options},
    record::{Record, Run},
};
use crate::{
    error::{CliError, Result},
    output::{CASES_BAR, Output, Report},
    renderer::{Renderer, Style},
};

/// Pairs that a report names.
const MAX_NAMED: usize = 20;

/// Check a data set: make its pairs again, run them, and compare.
///
/// Sources, translations and splits must be those of the data set, and results must agree. The exit code is 1 if a pair does not.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// Folder of the data set.
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// Run pairs on the CPU only, or on a GPU as well [default: on a GPU if there is one].
    #[arg(long, value_enum)]
    device: Option<Device>,
}

/// The findings of the check.
#[derive(Default, Serialize)]
struct Verified {
    pairs: u64,
    /// Pairs that are made as they are in the data set.
    reproduced: u64,
    /// Pairs whose runs agree with the interpreter's results.
    agreeing: u64,
    problems: Vec<Problem>,
    problem_count: u64,
}

/// A pair that fails.
#[derive(Serialize)]
struct Problem {
    name: String,
    reason: String,
}

impl Report for Verified {
    fn render(&self, renderer: &mut Renderer) {
        for Problem { name, reason } in &self.problems {
            let name = renderer.style(Style::Bad, name);
            renderer.line(format!("{name}  {reason}"));
        }
        if self.problem_count > self.problems.len() as u64 {
            renderer.line(format!("and {} more", self.problem_count - self.problems.len() as u64));
        }
        renderer.facts([
            ("pairs", self.pairs.to_string()),
            ("reproduced", self.reproduced.to_string()),
            ("agreeing", self.agreeing.to_string()),
        ]);
    }
}

impl Verified {
    fn fail(&mut self, name: &str, reason: String) {
        self.problem_count += 1;
        if self.problems.len() < MAX_NAMED {
            self.problems.push(Problem { name: name.to_owned(), reason });
        }
    }

    fn compare(&mut self, stored: &Record, made: &Record) {
        match difference(stored, made) {
            None => self.reproduced += 1,
            Some(field) => self.fail(&stored.name, format!("{field} is not what the daemon makes")),
        }
        match made.runs.iter().find(|run| !run.agrees()) {
            None => self.agreeing += 1,
            Some(Run { device, agreement, message, .. }) => {
                self.fail(&stored.name, format!("{agreement} on {device} {message}").trim_end().to_owned());
            }
        }
    }
}

pub(super) async fn run(args: VerifyArgs, client: &Client, output: &Output) -> Result {
    let folder = Folder::open(&args.folder)?;
    let mut stored = BTreeMap::new();
    folder.for_each(|record| {
        stored.insert(record.index, record);
        Ok(())
    })?;
    let mut verified = Verified { pairs: stored.len() as u64, ..Verified::default() };
    let bar = output.bar(verified.pairs, CASES_BAR, "pairs");
    while let (Some((&first, _)), Some((&last, _))) = (stored.first_key_value(), stored.last_key_value()) {
        let options = options(&folder.parameters, CALL_PAIRS.min(last - first + 1), args.device)?.first_index(first);
        let mut pairs = client.generate_dataset(&options).await?;
        // Stored pairs before this one are not generated again. A missing pair was a duplicate when the data set was generated.
        while let (Some(pair), false) = (pairs.next().await, stored.is_empty()) {
            let made = Record::from(pair?);
            let after = stored.split_off(&(made.index + 1));
            let mut until = std::mem::replace(&mut stored, after);
            let record = until.remove(&made.index);
            for left_out in until.values() {
                missing(&mut verified, left_out);
            }
            if let Some(record) = record {
                verified.compare(&record, &made);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    output.show(&verified)?;
    if verified.problem_count > 0 { Err(CliError::Differs) } else { Ok(()) }
}

fn missing(verified: &mut Verified, record: &Record) {
    verified.fail(&record.name, format!("index {} has no pair", record.index));
}

/// The first field that differs. Runs differ from machine to machine.
fn difference(stored: &Record, made: &Record) -> Option<&'static str> {
    let fields = [
        ("the source", stored.source == made.source),
        ("the id", stored.id == made.id && stored.structure_id == made.structure_id),
        ("the split", stored.split == made.split),
        ("the category", stored.category == made.category && stored.dialect == made.dialect),
        ("a file", stored.files == made.files && stored.binary_files == made.binary_files),
    ];
    fields.into_iter().find(|(_, is_equal)| !is_equal).map(|(name, _)| name)
}
