//! Suites of checks: files in TOML or JSON.

mod check;
mod fields;
mod options;
mod side;

use std::{collections::BTreeSet, fs, path::Path};

use toml::{Table, Value};

pub(super) use self::{
    check::{Check, Generated, Inputs},
    side::{Arrays, Side},
};
use self::{
    fields::{Fields, Mistakes},
    options::{Options, TOLERANCES},
};
use crate::error::{CliError, Result};

/// Reads the checks of a suite, with the files that they name. All mistakes are in one error.
pub(super) fn read(path: &Path) -> Result<Vec<Check>> {
    let text = fs::read_to_string(path).map_err(CliError::file(path))?;
    let table = parse(path, &text).map_err(|reason| CliError::Format { path: path.to_owned(), reason })?;
    let mistakes = Mistakes::default();
    let checks = checks(table, path.parent().unwrap_or(Path::new("")), &mistakes);
    let mistakes = mistakes.into_inner();
    if mistakes.is_empty() {
        return Ok(checks);
    }
    Err(CliError::Suite(mistakes.into_iter().map(|mistake| format!("{}: {mistake}", path.display())).collect()))
}

fn parse(path: &Path, text: &str) -> Result<Table, String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => serde_json::from_str(text).map_err(|error| error.to_string()),
        Some("toml") => toml::from_str(text).map_err(|error| error.to_string()),
        _ => Err("expected a .toml or .json file".to_owned()),
    }
}

fn checks(mut suite: Table, folder: &Path, mistakes: &Mistakes) -> Vec<Check> {
    let checks = suite.remove("check");
    let defaults = defaults(suite, mistakes);
    let tables: Option<Vec<Table>> = match checks {
        Some(Value::Array(checks)) => checks.into_iter().map(|check| check.as_table().cloned()).collect(),
        _ => None,
    };
    let Some(tables) = tables.filter(|tables| !tables.is_empty()) else {
        mistakes.note("", "check", "expected a list of at least one check");
        return vec![];
    };
    let mut checks = vec![];
    let mut names = BTreeSet::new();
    for (nth, table) in tables.into_iter().enumerate() {
        let name = table.get("name").and_then(Value::as_str).map(str::to_owned);
        let place = name.as_ref().map_or_else(|| format!("check {}", nth + 1), |name| format!("check {name:?}"));
        if name.as_ref().is_some_and(|name| !names.insert(name.clone())) {
            mistakes.note(&place, "name", "expected a name of its own");
        }
        checks.extend(Check::read(table, &defaults, place, folder, mistakes));
    }
    checks
}

/// The options of all checks; none if they have mistakes, which otherwise were reported for every check.
fn defaults(table: Table, mistakes: &Mistakes) -> Table {
    let known = mistakes.len();
    let mut fields = Fields::new(table.clone(), String::new(), mistakes);
    Options::read(&mut fields);
    fields.finish();
    if mistakes.len() == known { table } else { Table::new() }
}

/// Adds the options that a check does not have. The tolerances of the suite hold for a check without any.
fn inherit(check: &mut Table, defaults: &Table) {
    let has_tolerance = TOLERANCES.iter().any(|key| check.contains_key(*key));
    for (key, value) in defaults {
        if !(check.contains_key(key) || has_tolerance && TOLERANCES.contains(&key.as_str())) {
            check.insert(key.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests;
