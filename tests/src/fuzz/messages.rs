//! Changes of messages along their descriptors: the result decodes as its type, and differs from a valid request in a few fields.
#![allow(clippy::wildcard_enum_match_arm, reason = "other kinds of values are treated alike")]

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage, Value};

use super::{choices::Choices, words::words};

/// Messages within messages that a change descends to.
const MAX_DEPTH: usize = 12;
const MAX_CHANGES: usize = 6;
/// Entries of long lists, and bytes of long texts.
const LONG: [usize; 3] = [60, 900, 20_000];

/// Changes up to [`MAX_CHANGES`] fields, mostly few: a request with several mistakes is refused for the first.
pub(super) fn mutate(message: &mut DynamicMessage, choices: &mut Choices<'_>) {
    let count = choices.below(MAX_CHANGES + 1);
    let other = choices.below(MAX_CHANGES + 1);
    for _ in 0..count.min(other) {
        mutate_field(message, choices, MAX_DEPTH);
    }
}

fn mutate_field(message: &mut DynamicMessage, choices: &mut Choices<'_>, depth: usize) {
    let all: Vec<FieldDescriptor> = message.descriptor().fields().collect();
    let present: Vec<_> = all.iter().filter(|field| message.has_field(field)).cloned().collect();
    let fields = if present.is_empty() || choices.is_one_in(5) { all } else { present };
    let Some(field) = fields.get(choices.below(fields.len())) else { return };
    if choices.is_one_in(12) {
        return message.clear_field(field);
    }
    match message.get_field_mut(field) {
        Value::List(list) => mutate_list(list, field, choices, depth),
        Value::Map(map) => mutate_map(map, field, choices, depth),
        value => mutate_value(value, field, choices, depth),
    }
}

fn mutate_map(map: &mut HashMap<MapKey, Value>, field: &FieldDescriptor, choices: &mut Choices<'_>, depth: usize) {
    let kind = field.kind();
    let value = kind.as_message().expect("an entry of a map is a message").map_entry_value_field();
    let mut keys: Vec<String> = map.keys().filter_map(|key| key.as_str().map(ToOwned::to_owned)).collect();
    keys.sort_unstable();
    let key = if keys.is_empty() || choices.is_one_in(6) {
        choices.one_of(words(field.name())).to_owned()
    } else {
        keys.swap_remove(choices.below(keys.len()))
    };
    let to = map.entry(MapKey::String(key)).or_insert_with(|| Value::default_value(&value.kind()));
    mutate_value(to, &value, choices, depth);
}

fn mutate_list(list: &mut Vec<Value>, field: &FieldDescriptor, choices: &mut Choices<'_>, depth: usize) {
    if list.is_empty() {
        list.push(Value::default_value(&field.kind()));
    }
    let index = choices.below(list.len());
    let other = choices.below(list.len());
    match choices.byte() % 10 {
        0 => list.push(Value::default_value(&field.kind())),
        1 => drop(list.remove(index)),
        2 => list.push(list[index].clone()),
        3 => list.swap(index, other),
        4 if choices.is_one_in(4) => {
            let value = list[index].clone();
            list.resize(list.len() + LONG[choices.below(LONG.len())], value);
        }
        _ => mutate_value(&mut list[index], field, choices, depth),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any number will do")]
fn mutate_value(value: &mut Value, field: &FieldDescriptor, choices: &mut Choices<'_>, depth: usize) {
    match value {
        Value::Bool(value) => *value = !*value,
        Value::I32(value) => *value = choices.integer() as i32,
        Value::I64(value) => *value = choices.integer(),
        Value::U32(value) => *value = choices.integer() as u32,
        Value::U64(value) => *value = choices.integer() as u64,
        Value::F32(value) => *value = choices.float() as f32,
        Value::F64(value) => *value = choices.float(),
        Value::EnumNumber(value) => *value = enum_number(&field.kind(), choices),
        Value::String(text) => mutate_text(text, words(field.name()), choices),
        Value::Bytes(bytes) => {
            let mut changed = bytes.to_vec();
            mutate_bytes(&mut changed, choices);
            *bytes = changed.into();
        }
        Value::Message(message) if depth > 0 => mutate_field(message, choices, depth - 1),
        Value::Message(_) | Value::List(_) | Value::Map(_) => {}
    }
}

/// A number of the enumeration, or any.
#[expect(clippy::cast_possible_truncation, reason = "any number will do")]
fn enum_number(kind: &Kind, choices: &mut Choices<'_>) -> i32 {
    let any = choices.integer() as i32;
    let numbers = kind.as_enum().map(|of| of.values().map(|value| value.number()).collect::<Vec<_>>());
    let known = numbers.filter(|_| !choices.is_one_in(6)).unwrap_or_default();
    known.get(choices.below(known.len())).copied().unwrap_or(any)
}

fn mutate_text(text: &mut String, words: &[&str], choices: &mut Choices<'_>) {
    let word = choices.one_of(words);
    let mut characters: Vec<char> = text.chars().collect();
    let (start, end) = range(characters.len(), choices);
    match choices.byte() % 8 {
        0 => characters = word.chars().collect(),
        1 if !word.is_empty() => {
            let many = word.repeat(LONG[choices.below(LONG.len())].div_ceil(word.len()));
            drop(characters.splice(start..start, many.chars()));
        }
        2 => drop(characters.drain(start..end)),
        3 => drop(characters.splice(start..end, word.chars())),
        4 => characters.extend_from_within(start..end),
        5 => characters.iter_mut().skip(start).take(1).for_each(|to| *to = char::from(choices.byte() % 128)),
        _ => drop(characters.splice(start..start, word.chars())),
    }
    *text = characters.into_iter().collect();
}

/// Changes some bytes, or the length.
pub(super) fn mutate_bytes(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let (start, end) = range(bytes.len(), choices);
    match choices.byte() % 6 {
        0 => bytes.truncate(start),
        1 => drop(bytes.drain(start..end)),
        2 => bytes.extend_from_within(start..end),
        3 => bytes.iter_mut().skip(start).take(8).for_each(|byte| *byte = choices.byte()),
        4 => bytes.iter_mut().skip(start).take(1).for_each(|byte| *byte ^= 1 << (choices.byte() % 8)),
        _ => bytes.insert(start, choices.byte()),
    }
}

/// Changes which messages of a stream are sent, and in which order.
pub(super) fn mutate_stream(messages: &mut Vec<Vec<u8>>, choices: &mut Choices<'_>) {
    let index = choices.below(messages.len());
    let other = choices.below(messages.len());
    match choices.byte() % 5 {
        1 if !messages.is_empty() => drop(messages.remove(index)),
        2 if !messages.is_empty() => messages.push(messages[index].clone()),
        3 if !messages.is_empty() => messages.swap(index, other),
        _ => {}
    }
}

fn range(length: usize, choices: &mut Choices<'_>) -> (usize, usize) {
    let start = choices.below(length + 1);
    let end = choices.below(length + 1);
    (start.min(end), start.max(end))
}

/// A message as text: its fields that are set.
pub(super) fn text(message: &DynamicMessage) -> String {
    let fields = message.fields().map(|(field, value)| format!("{}: {}", field.name(), value_text(value)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Message(message) => text(message),
        Value::List(list) => format!("[{}]", list.iter().map(value_text).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| format!("{key:?}: {}", value_text(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Bool(value) => value.to_string(),
        Value::I32(value) | Value::EnumNumber(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::F32(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::String(value) => format!("{value:?}"),
        Value::Bytes(value) => format!("{value:?}"),
    }
}
