//! Statistics of a data set.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use clap::{Args, ValueHint};
use serde::Serialize;

use super::{folder::Folder, record::Record};
use crate::{
    error::Result,
    output::{Output, Report},
    renderer::{Renderer, Table},
};

/// Count the pairs of a data set by category, split, dialect and agreement. This needs no daemon.
#[derive(Debug, Args)]
pub(super) struct StatsArgs {
    /// Folder of the data set.
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

/// Statistics of a data set.
#[derive(Default, Serialize)]
struct Stats {
    pairs: u64,
    /// Pairs with an id that an earlier one has.
    duplicates: u64,
    structures: u64,
    /// Structures in more than one split.
    shared_structures: u64,
    bit_exact: u64,
    source_bytes: u64,
    dialects: BTreeMap<String, u64>,
    /// Pairs by category and split.
    categories: BTreeMap<String, BTreeMap<String, u64>>,
    /// Runs by device and agreement.
    agreement: BTreeMap<String, BTreeMap<String, u64>>,
    max_ulp_error: BTreeMap<String, u64>,
}

impl Report for Stats {
    fn render(&self, renderer: &mut Renderer) {
        let mut table = Table::new(["<category", "train", "validation", "test"]);
        for (category, splits) in &self.categories {
            let count = |split: &str| splits.get(split).copied().unwrap_or_default().to_string();
            table.row([category.clone(), count("train"), count("validation"), count("test")]);
        }
        renderer.table(&table);
        renderer.gap();
        let mut facts = vec![
            ("pairs", format!("{} ({} bit-exact)", self.pairs, self.bit_exact)),
            ("duplicates", self.duplicates.to_string()),
            ("structures", format!("{} ({} in several splits)", self.structures, self.shared_structures)),
            ("dialects", listed(&self.dialects)),
        ];
        for (device, counts) in &self.agreement {
            let ulps = self.max_ulp_error.get(device).copied().unwrap_or_default();
            facts.push((device.as_str(), format!("{}, at most {ulps} ULP", listed(counts))));
        }
        renderer.facts(facts);
    }
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
    let each: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    each.join(", ")
}

pub(super) fn run(args: &StatsArgs, output: &Output) -> Result {
    let folder = Folder::open(&args.folder)?;
    let mut stats = Stats::default();
    let mut ids = BTreeSet::new();
    let mut structures: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    folder.for_each(|record| {
        stats.add(&record);
        stats.duplicates += u64::from(!ids.insert(record.id));
        structures.entry(record.structure_id).or_default().insert(record.split);
        Ok(())
    })?;
    stats.structures = structures.len() as u64;
    stats.shared_structures = structures.values().filter(|splits| splits.len() > 1).count() as u64;
    output.show(&stats)
}

impl Stats {
    fn add(&mut self, record: &Record) {
        self.pairs += 1;
        self.bit_exact += u64::from(record.bit_exact);
        self.source_bytes += record.source.len() as u64;
        *self.dialects.entry(record.dialect.clone()).or_default() += 1;
        let splits = self.categories.entry(record.category.clone()).or_default();
        *splits.entry(record.split.clone()).or_default() += 1;
        for run in &record.runs {
            let counts = self.agreement.entry(run.device.clone()).or_default();
            *counts.entry(run.agreement.clone()).or_default() += 1;
            let maximum = self.max_ulp_error.entry(run.device.clone()).or_default();
            *maximum = run.max_ulp_error.max(*maximum);
        }
    }
}
