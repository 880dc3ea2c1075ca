//! Generates the tables as Rust constants: plain numbers, which a GPU can use unchanged.

use std::fmt::{Display, Write};

use crate::grammar_parser::Grammar;
use crate::tables::{Tables, entry};

/// The text of a Rust module.
pub fn write(grammar: &Grammar, tables: &Tables) -> String {
    let mut text = String::from("// Written by accelerd-grammar.\n");
    constant(
        &mut text,
        "Number of terminals, the end of a line included, which is the last one.",
        "TERMINALS",
        "usize",
        grammar.terminals,
    );
    for (name, value, meaning) in [
        ("GOTO", entry::GOTO, "An entry: shift the terminal, or push the nonterminal, and go to this state."),
        ("REDUCE", entry::REDUCE, "An entry: reduce by this production."),
        ("SHIFT_REDUCE", entry::SHIFT_REDUCE, "An entry: shift the terminal and reduce by this production."),
        ("LOOKAHEAD", entry::LOOKAHEAD, "An entry of `GOTOS`: the goto is in this row of `LOOKAHEAD_GOTOS`."),
        ("ERROR", entry::ERROR, "An entry: a syntax error."),
        ("ACCEPT", entry::ACCEPT, "An entry: the line is complete."),
        ("INDEX_MASK", entry::INDEX_MASK, "The bits of an entry that are its state or production."),
    ] {
        constant(&mut text, meaning, name, "u16", value);
    }
    constant(&mut text, "Number of states.", "STATES", "usize", tables.states);
    array(&mut text, "The action by state and terminal.", "ACTIONS", "u16", tables.actions.iter());
    let starts = tables.goto_rows.iter().map(|&row| usize::from(row) * tables.rules);
    array(&mut text, "By state: where its row of `GOTOS` starts.", "GOTO_ROWS", "u16", starts);
    constant(&mut text, "Entries of a row of `GOTOS`.", "GOTO_WIDTH", "usize", tables.rules);
    array(&mut text, "The goto by row and rule.", "GOTOS", "u16", tables.gotos.iter());
    constant(&mut text, "Entries of a row of `LOOKAHEAD_GOTOS`.", "LOOKAHEAD_WIDTH", "usize", tables.lookahead_width);
    array(
        &mut text,
        "By terminal: its column in `LOOKAHEAD_GOTOS`.",
        "LOOKAHEAD_COLUMNS",
        "u16",
        tables.lookahead_columns.iter(),
    );
    array(
        &mut text,
        "The gotos that depend on the lookahead, by row and column.",
        "LOOKAHEAD_GOTOS",
        "u16",
        tables.lookahead_gotos.iter(),
    );
    let productions: Vec<[u32; 4]> =
        (0..grammar.productions.len()).map(|number| packed(grammar, number, tables.production_rules[number])).collect();
    array(&mut text, PRODUCTION, "PRODUCTIONS", "[u32; 4]", productions.iter().map(|words| format!("{words:?}")));
    let labels = grammar.labels.iter().map(|label| format!("[{}, {}, {}]", label.kind, label.matching, label.other));
    array(
        &mut text,
        "By label: a kind, the field of roots of that kind, and that of all others.",
        "LABELS",
        "[u8; 3]",
        labels,
    );
    text
}

const PRODUCTION: &str = "By production. Word 0, from the lowest bit: length (4 bits), rule (8), kind of the node or 0 (8), source of `aux` (4), \
     symbol it comes from (4), leading symbols outside the node (3), 1 if all symbols are terminals (1). Word 1: the number that `aux` is. Words 2 and 3: a label for \
     each symbol, a byte each, the first one lowest.";

fn packed(grammar: &Grammar, number: usize, rule: u8) -> [u32; 4] {
    let production = &grammar.productions[number];
    let leaf = production.symbols.iter().all(|&symbol| symbol < grammar.terminals);
    let length = u32::try_from(production.symbols.len()).expect("short");
    assert!(length <= 8, "an alternative has at most 8 symbols");
    let fields = [
        (length, 0),
        (u32::from(rule), 4),
        (u32::from(production.kind), 12),
        (production.aux as u32, 20),
        (u32::from(production.aux_symbol), 24),
        (u32::from(production.skipped), 28),
        (u32::from(leaf), 31),
    ];
    let labels = production.labels.iter().rev().fold(0_u64, |labels, &label| labels << 8 | u64::from(label));
    let halves = [labels & u64::from(u32::MAX), labels >> 32].map(|half| u32::try_from(half).expect("half of it"));
    [fields.iter().fold(0, |word, &(value, shift)| word | value << shift), production.aux_value, halves[0], halves[1]]
}

fn constant(text: &mut String, meaning: &str, name: &str, kind: &str, value: impl Display) {
    writeln!(text, "/// {meaning}\npub const {name}: {kind} = {value};").expect("text grows");
}

fn array(
    text: &mut String,
    meaning: &str,
    name: &str,
    kind: &str,
    values: impl ExactSizeIterator<Item = impl Display>,
) {
    write!(text, "/// {meaning}\npub static {name}: [{kind}; {}] = [", values.len()).expect("text grows");
    for value in values {
        write!(text, "{value},").expect("text grows");
    }
    text.push_str("];\n");
}
