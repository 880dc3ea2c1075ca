//! Reads tables of a suite, and notes all that is wrong with them.

use std::{cell::RefCell, time::Duration};

use toml::{Table, Value};

use crate::args;

/// The errors of a suite.
#[derive(Debug, Default)]
pub(super) struct Mistakes(RefCell<Vec<String>>);

impl Mistakes {
    pub(super) fn note(&self, place: &str, key: &str, reason: impl AsRef<str>) {
        let colon = if place.is_empty() { "" } else { ": " };
        self.0.borrow_mut().push(format!("{place}{colon}{key}: {}", reason.as_ref()));
    }

    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(super) fn into_inner(self) -> Vec<String> {
        self.0.into_inner()
    }
}

/// A table whose keys are taken one by one. Keys that are left are errors.
pub(super) struct Fields<'a> {
    table: Table,
    /// The check, if the table belongs to one.
    place: String,
    /// The keys that lead to the table within the check, each with a dot.
    prefix: String,
    known: Vec<&'static str>,
    mistakes: &'a Mistakes,
}

impl<'a> Fields<'a> {
    pub(super) fn new(table: Table, place: String, mistakes: &'a Mistakes) -> Self {
        Self { table, place, prefix: String::new(), known: vec![], mistakes }
    }

    fn inner(&self, key: &str, table: Table) -> Self {
        let prefix = format!("{}{key}.", self.prefix);
        Self { table, place: self.place.clone(), prefix, known: vec![], mistakes: self.mistakes }
    }

    pub(super) fn note(&self, key: &str, reason: impl AsRef<str>) {
        self.mistakes.note(&self.place, &format!("{}{key}", self.prefix), reason);
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(key)?;
        let found = read(&value);
        if found.is_none() {
            self.note(key, format!("expected {expected}, got {}", shown(&value)));
        }
        found
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        self.read(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, "true or false", Value::as_bool)
    }

    pub(super) fn integer(&mut self, key: &'static str, least: u64) -> Option<u64> {
        let integer = |value: &Value| value.as_integer()?.try_into().ok().filter(|number| *number >= least);
        self.read(key, &format!("an integer of at least {least}"), integer)
    }

    pub(super) fn small_integer(&mut self, key: &'static str, least: u32) -> Option<u32> {
        let integer = |value: &Value| value.as_integer()?.try_into().ok().filter(|number| *number >= least);
        self.read(key, &format!("an integer from {least} to {}", u32::MAX), integer)
    }

    /// A tolerance.
    pub(super) fn tolerance(&mut self, key: &'static str) -> Option<f64> {
        self.read(key, "a number of at least 0", |value| {
            number(value).filter(|number| number.is_finite() && *number >= 0.0)
        })
    }

    /// The bound of a domain, whose type is that of the input.
    pub(super) fn bound(&mut self, key: &'static str) -> Option<Bound> {
        self.read(key, "a number", |value| match value {
            Value::Integer(integer) => Some(Bound::Integer(*integer)),
            Value::Float(float) if !float.is_nan() => Some(Bound::Float(*float)),
            Value::Float(_)
            | Value::String(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_)
            | Value::Table(_) => None,
        })
    }

    pub(super) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        self.read(key, "a time such as \"500ms\"", |value| args::duration(value.as_str()?).ok())
    }

    pub(super) fn size(&mut self, key: &'static str) -> Option<u64> {
        self.read(key, "a size such as \"64MiB\"", |value| args::size(value.as_str()?).ok())
    }

    pub(super) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
        let chosen = |value: &Value| Some(choices.iter().find(|(name, _)| Some(*name) == value.as_str())?.1);
        self.read(key, &names.join(" or "), chosen)
    }

    pub(super) fn table(&mut self, key: &'static str) -> Option<Self> {
        let table = self.read(key, "a table", |value| value.as_table().cloned())?;
        Some(self.inner(key, table))
    }

    /// The entries of a table whose keys are names.
    pub(super) fn entries<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        read: impl Fn(&Self, &str, &Value) -> Option<T>,
    ) -> Vec<(String, T)> {
        let Some(table) = self.table(key) else { return vec![] };
        let entry = |(name, value): (&String, &Value)| {
            let entry = read(&table, name, value);
            if entry.is_none() {
                table.note(name, format!("expected {expected}, got {}", shown(value)));
            }
            Some((name.clone(), entry?))
        };
        table.table.iter().filter_map(entry).collect()
    }

    /// A table of tables, whose keys are names.
    pub(super) fn tables(&mut self, key: &'static str) -> Vec<(String, Self)> {
        self.entries(key, "a table", |table, name, value| Some(table.inner(name, value.as_table()?.clone())))
    }

    /// A table of texts, whose keys are names.
    pub(super) fn texts(&mut self, key: &'static str) -> Vec<(String, String)> {
        self.entries(key, "a text", |_, _, value| value.as_str().map(str::to_owned))
    }

    /// A list of tables.
    pub(super) fn list(&mut self, key: &'static str) -> Vec<Self> {
        let tables = |value: &Value| value.as_array()?.iter().map(|value| value.as_table().cloned()).collect();
        let tables: Vec<Table> = self.read(key, "a list of tables", tables).unwrap_or_default();
        let inner = |(nth, table)| self.inner(&format!("{key}[{nth}]"), table);
        tables.into_iter().enumerate().map(inner).collect()
    }

    /// Notes the keys that are left.
    pub(super) fn finish(self) {
        for key in self.table.keys() {
            self.note(key, format!("unknown key, expected {}", self.known.join(", ")));
        }
    }
}

/// A bound of a domain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    Integer(i64),
    Float(f64),
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64))
}

/// A value in a message.
fn shown(value: &Value) -> String {
    match value {
        Value::Table(_) => "a table".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            value.to_string()
        }
    }
}
