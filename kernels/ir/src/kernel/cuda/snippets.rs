//! The parts of the preludes that a program needs.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use crate::scalar::cuda::PRELUDE;

static PARAGRAPHS: LazyLock<Paragraphs> = LazyLock::new(Paragraphs::new);

/// Definitions of the preludes.
struct Paragraphs {
    texts: Vec<&'static str>,
    /// The paragraphs that define a name.
    definitions: HashMap<&'static str, Vec<usize>>,
}

impl Paragraphs {
    fn new() -> Self {
        let texts: Vec<_> = [PRELUDE, include_str!("compute.cuh")].into_iter().flat_map(paragraphs).collect();
        let mut definitions: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, text) in texts.iter().enumerate() {
            for name in defined(text) {
                definitions.entry(name).or_default().push(index);
            }
        }
        Self { texts, definitions }
    }
}

/// The definitions that a text uses by names after `ir::`, and those that they use: a namespace, or nothing.
pub(super) fn used_by(text: &str) -> String {
    let Paragraphs { texts: paragraphs, definitions } = &*PARAGRAPHS;
    let mut used = BTreeSet::new();
    let mut pending: Vec<&str> = text.split("ir::").skip(1).filter_map(|rest| words(rest).next()).collect();
    while let Some(name) = pending.pop() {
        for index in definitions.get(name).into_iter().flatten() {
            if used.insert(*index) {
                pending.extend(code_lines(paragraphs[*index]).flat_map(words));
            }
        }
    }
    if used.is_empty() {
        return String::new();
    }
    let types = paragraphs.iter().find(|paragraph| paragraph.starts_with("typedef")).expect("the prelude has types");
    let used: Vec<_> = [types].into_iter().chain(used.iter().map(|index| &paragraphs[*index])).copied().collect();
    format!("namespace ir {{\n\n{}\n\n}}  // namespace ir\n\n", used.join("\n\n"))
}

/// Paragraphs of a source, separated by empty lines.
fn paragraphs(source: &'static str) -> impl Iterator<Item = &'static str> {
    source.split("\n\n").map(|paragraph| paragraph.trim_matches('\n'))
}

fn code_lines(paragraph: &str) -> impl Iterator<Item = &str> {
    paragraph.lines().map(|line| line.split("//").next().unwrap_or(line))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The names that a paragraph defines.
fn defined(paragraph: &str) -> impl Iterator<Item = &str> {
    code_lines(paragraph).filter_map(|line| {
        let function = line.split_once("__forceinline__ ").and_then(|(_, rest)| rest.split_once('('));
        match (function, line.strip_prefix("struct "), line.strip_prefix("IR_TRUNCATE(")) {
            (Some((signature, _)), ..) => words(signature).last(),
            (None, Some(rest), _) | (None, None, Some(rest)) => words(rest).next(),
            (None, None, None) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_comes_with_what_it_uses() {
        assert_eq!(used_by("y[i] = x[i];"), "");
        let text = used_by("ir::atomic_min(at, x)");
        for name in [
            "T atomic_min(",
            "u32 compare_exchange(",
            "u64* words(",
            "float minimum(",
            "double minimum(",
            "typedef int",
        ] {
            assert!(text.contains(name) == (name != "typedef int"), "{name}: {text}");
        }
        assert!(!text.contains("atomic_max") && !text.contains("f16_to_f32"), "{text}");
        assert!(used_by("ir::to_u8(x)").contains("#undef IR_TRUNCATE"));
        assert!(used_by("ir::Range<int> range(0, 1, 1);").contains("bool next("));
    }
}
