//! Changes of messages along their descriptors: the result decodes as its type, and differs from a valid request in a few fields.

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, Value};

use super::choices::Choices;

/// Messages within messages that a change descends to.
const MAX_DEPTH: usize = 12;
const MAX_CHANGES: usize = 6;
/// Bytes of a long text.
const LONG: usize = 3000;
const WORDS: [&str; 24] = [
    "",
    "x",
    "y",
    "sum",
    "expand",
    "matmul",
    "softmax",
    "cumsum",
    "topk",
    "one_hot",
    "conv2d",
    "dim",
    "shape",
    "dtype",
    "f32",
    "i64",
    "cpu",
    "cuda:0",
    "a\u{1b}[31m\nb",
    "\u{e9}\u{4e2d}\u{1f600}",
    "../../etc/passwd",
    "0",
    "while True:\n    pass\n",
    "((((((((",
];

/// Changes up to [`MAX_CHANGES`] fields.
pub fn mutate(message: &mut DynamicMessage, choices: &mut Choices<'_>) {
    for _ in 0..choices.below(MAX_CHANGES) {
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
        Value::List(list) => mutate_list(list, &field.kind(), choices, depth),
        Value::Map(map) => {
            let Kind::Message(entry) = field.kind() else { return };
            let mut keys: Vec<String> = map.keys().filter_map(|key| key.as_str().map(ToOwned::to_owned)).collect();
            keys.sort_unstable();
            let is_new = keys.is_empty() || choices.is_one_in(6);
            let key = if is_new {
                WORDS[choices.below(WORDS.len())].to_owned()
            } else {
                keys.swap_remove(choices.below(keys.len()))
            };
            let kind = entry.map_entry_value_field().kind();
            let value = map.entry(MapKey::String(key)).or_insert_with(|| Value::default_value(&kind));
            mutate_value(value, &kind, choices, depth);
        }
        value => mutate_value(value, &field.kind(), choices, depth),
    }
}

fn mutate_list(list: &mut Vec<Value>, kind: &Kind, choices: &mut Choices<'_>, depth: usize) {
    let at = choices.below(list.len());
    match choices.byte() % 8 {
        0 => {
            list.push(Value::default_value(kind));
            mutate_value(list.last_mut().expect("one was added"), kind, choices, depth);
        }
        1 if !list.is_empty() => drop(list.remove(at)),
        2 if !list.is_empty() => list.push(list[at].clone()),
        3 if !list.is_empty() => {
            let other = choices.below(list.len());
            list.swap(at, other);
        }
        _ if !list.is_empty() => mutate_value(&mut list[at], kind, choices, depth),
        _ => {}
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any number will do")]
fn mutate_value(value: &mut Value, kind: &Kind, choices: &mut Choices<'_>, depth: usize) {
    match value {
        Value::Bool(value) => *value = !*value,
        Value::I32(value) => *value = choices.integer() as i32,
        Value::I64(value) => *value = choices.integer(),
        Value::U32(value) => *value = choices.integer() as u32,
        Value::U64(value) => *value = choices.integer() as u64,
        Value::F32(value) => *value = choices.float() as f32,
        Value::F64(value) => *value = choices.float(),
        Value::EnumNumber(value) => {
            let numbers = kind.as_enum().map(|of| of.values().map(|value| value.number()).collect::<Vec<_>>());
            let numbers = numbers.unwrap_or_default();
            let any = choices.integer() as i32;
            *value = if choices.is_one_in(6) {
                any
            } else {
                numbers.get(choices.below(numbers.len())).copied().unwrap_or(any)
            };
        }
        Value::String(text) => mutate_text(text, choices),
        Value::Bytes(bytes) => {
            let mut changed = bytes.to_vec();
            mutate_bytes(&mut changed, choices);
            *bytes = changed.into();
        }
        Value::Message(message) if depth > 0 => mutate_field(message, choices, depth - 1),
        Value::Message(_) | Value::List(_) | Value::Map(_) => {}
    }
}

fn mutate_text(text: &mut String, choices: &mut Choices<'_>) {
    let word = WORDS[choices.below(WORDS.len())];
    let mut characters: Vec<char> = text.chars().collect();
    let (start, end) = (choices.below(characters.len() + 1), choices.below(characters.len() + 1));
    let (start, end) = (start.min(end), start.max(end));
    match choices.byte() % 6 {
        0 => characters = word.chars().collect(),
        1 => characters = text.repeat(LONG / text.len().max(1)).chars().collect(),
        2 => drop(characters.drain(start..end)),
        3 => drop(characters.splice(start..start, word.chars())),
        4 => characters.extend_from_within(start..end),
        _ => characters.iter_mut().skip(start).take(1).for_each(|to| *to = char::from(choices.byte() % 128)),
    }
    *text = characters.into_iter().collect();
}

/// Changes some bytes, or the length.
pub fn mutate_bytes(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let (start, end) = (choices.below(bytes.len() + 1), choices.below(bytes.len() + 1));
    let (start, end) = (start.min(end), start.max(end));
    match choices.byte() % 6 {
        0 => bytes.truncate(start),
        1 => drop(bytes.drain(start..end)),
        2 => bytes.extend_from_within(start..end),
        3 => bytes.iter_mut().skip(start).take(8).for_each(|byte| *byte = choices.byte()),
        4 => bytes.iter_mut().skip(start).take(1).for_each(|byte| *byte ^= 1 << (choices.byte() % 8)),
        _ => bytes.insert(start, choices.byte()),
    }
}
