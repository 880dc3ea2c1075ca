//! Changes of JSON documents: values within them, and how deep they nest.
#![allow(clippy::wildcard_enum_match_arm, reason = "other kinds of values are treated alike")]

use serde_json::{Value, json};

use super::{choices::Choices, words::words};

/// Values within values that a change descends to.
const MAX_DEPTH: usize = 24;
/// Arrays within arrays of a document that is nested too deep.
const NESTED: usize = 100_000;

/// Changes a value of a document.
pub(super) fn mutate(document: &mut Value, choices: &mut Choices<'_>) {
    mutate_within(document, choices, MAX_DEPTH);
}

fn mutate_within(value: &mut Value, choices: &mut Choices<'_>, depth: usize) {
    let stops = depth == 0 || choices.is_one_in(16);
    match value {
        Value::Object(fields) if !fields.is_empty() && !stops => {
            let nth = choices.below(fields.len());
            let key = fields.keys().nth(nth).expect("one of the keys").clone();
            if choices.is_one_in(12) {
                drop(fields.remove(&key));
            } else if choices.is_one_in(16) {
                let moved = fields.get(&key).cloned().unwrap_or_default();
                fields.insert(format!("{key}{}", choices.byte() % 4), moved);
            } else {
                mutate_within(fields.get_mut(&key).expect("it was found"), choices, depth - 1);
            }
        }
        Value::Array(values) if !values.is_empty() && !stops => {
            let index = choices.below(values.len());
            match choices.byte() % 8 {
                0 => drop(values.remove(index)),
                1 => values.push(values[index].clone()),
                _ => mutate_within(&mut values[index], choices, depth - 1),
            }
        }
        Value::Number(number) if choices.is_one_in(3) => {
            let near = number.as_i64().unwrap_or_default();
            *value = json!(near.wrapping_add(i64::from(choices.byte() % 5) - 2));
        }
        value => *value = replacement(choices),
    }
}

fn replacement(choices: &mut Choices<'_>) -> Value {
    match choices.byte() % 8 {
        0 => Value::Null,
        1 => json!(choices.is_one_in(2)),
        2 | 3 => json!(choices.integer()),
        // JSON has no NaN and no infinity: they become null.
        4 => json!(choices.float()),
        5 => json!(choices.one_of(words(""))),
        6 => json!([choices.integer(), choices.integer()]),
        _ => json!({ choices.one_of(words("")): choices.integer() }),
    }
}

/// The text of a document, now and then nested deeper than any parser may follow.
pub(super) fn text(document: &Value, choices: &mut Choices<'_>) -> Vec<u8> {
    if choices.is_one_in(40) { [b'['].repeat(NESTED) } else { document.to_string().into_bytes() }
}
