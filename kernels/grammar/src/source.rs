//! Writes tables as Rust constants: plain numbers, which a GPU can be given as they are.

use std::fmt::{Display, Write};

use crate::notation::{Grammar, Production};
use crate::tables::{Dense, Tables, entry};

/// The text of a Rust module.
pub fn write(grammar: &Grammar, tables: &Tables) -> String {
    let mut text = String::from("// Written by accelerd-grammar.\n");
    constant(
        &mut text,
        "How many terminals there are, the end of a line included: it is the last one.",
        "TERMINALS",
        "usize",
        grammar.terminals,
    );
    for (name, value, meaning) in [
        ("GO", entry::GO, "An entry: take the terminal, or the rule, and go to this state."),
        ("REDUCE", entry::REDUCE, "An entry: reduce this production."),
        ("TAKE_AND_REDUCE", entry::TAKE_AND_REDUCE, "An entry: take the terminal and reduce this production."),
        ("ERROR", entry::ERROR, "An entry: the line is wrong here."),
        ("ACCEPT", entry::ACCEPT, "An entry: the line is complete."),
        ("NUMBER", entry::NUMBER, "The bits of an entry that are the state or the production."),
    ] {
        constant(&mut text, meaning, name, "u16", value);
    }
    dense(&mut text, "ACTION", "by state and terminal: what to do", &tables.actions);
    dense(&mut text, "GOTO", "by row of `STEP` and terminal: what to do behind a rule", &tables.gotos);
    dense(&mut text, "STEP", "by state and rule: a row of `GOTO`", &tables.steps);
    let productions: Vec<[u32; 4]> = (0..grammar.productions.len())
        .map(|number| packed(&grammar.productions[number], tables.rules[number]))
        .collect();
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

const PRODUCTION: &str = "By production. Word 0, from the lowest bit: length (4 bits), rule (8), kind of the node or 0 (8), where `aux` comes from (4), \
     symbol it comes from (4), symbols beside the node (4). Word 1: the number that `aux` is. Words 2 and 3: a label for \
     each symbol, a byte each, the first one lowest.";

fn packed(production: &Production, rule: u8) -> [u32; 4] {
    let length = u32::try_from(production.symbols.len()).expect("short");
    assert!(length <= 8, "an alternative has at most 8 symbols");
    let fields = [
        (length, 0),
        (u32::from(rule), 4),
        (u32::from(production.kind), 12),
        (production.aux as u32, 20),
        (u32::from(production.aux_symbol), 24),
        (u32::from(production.beside), 28),
    ];
    let labels = production.labels.iter().rev().fold(0_u64, |labels, &label| labels << 8 | u64::from(label));
    let halves = [labels & u64::from(u32::MAX), labels >> 32].map(|half| u32::try_from(half).expect("half of it"));
    [fields.iter().fold(0, |word, &(value, shift)| word | value << shift), production.aux_value, halves[0], halves[1]]
}

fn dense(text: &mut String, name: &str, meaning: &str, table: &Dense) {
    constant(text, &format!("Stored columns of the table {meaning}."), &format!("{name}_WIDTH"), "usize", table.width);
    let doc = |what: &str| format!("{what} of the table {meaning}.");
    array(text, &doc("By column: the stored column"), &format!("{name}_COLUMNS"), "u8", table.columns.iter());
    array(text, &doc("By row: the stored row"), &format!("{name}_ROWS"), "u16", table.rows.iter());
    array(text, &doc("Stored rows"), &format!("{name}_CELLS"), "u16", table.cells.iter());
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
