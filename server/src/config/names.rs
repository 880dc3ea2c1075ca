//! Names of settings and of their tables, as the defaults have them.

use std::collections::BTreeMap;

use config::{Value, ValueKind};

/// The defaults by their names.
type Defaults = BTreeMap<String, Value>;

/// Returns what is wrong with a name that neither a setting nor a table can have.
pub(super) fn misnamed(defaults: &Defaults, name: &str) -> Option<String> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !name.split('.').all(|word| !word.is_empty() && word.chars().all(is_fit)) {
        return Some("expected the name of a setting, such as server.listen".to_owned());
    }
    let mut parents = name.match_indices('.').map(|(at, _)| &name[..at]);
    let value = parents.find(|parent| default_of(defaults, parent).is_some())?;
    Some(format!("unknown setting: {value} is not a table"))
}

/// The default of a setting that is no table. A setting of a lane has that of all lanes.
pub(super) fn default_of<'a>(defaults: &'a Defaults, name: &str) -> Option<&'a Value> {
    let of_lanes = || {
        let (_, setting) = name.strip_prefix("lanes.")?.split_once('.')?;
        defaults.get(&format!("lanes.default.{setting}"))
    };
    let default = defaults.get(name).or_else(of_lanes);
    default.filter(|default| !matches!(default.kind, ValueKind::Table(_)))
}

/// Returns what is expected under the name of a table.
pub(super) fn expected_table(defaults: &Defaults, name: &str) -> Option<String> {
    let within = |table: &str| defaults.keys().find_map(|name| name.strip_prefix(table)?.strip_prefix('.'));
    let setting = within(name).or_else(|| defaults.get(name).and_then(|_| within("lanes.default")))?;
    Some(format!("expected a table with settings such as {name}.{setting}"))
}
