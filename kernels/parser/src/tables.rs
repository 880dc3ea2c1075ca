//! The tables of the parser, as `accelerd-grammar` wrote them: the driver reads them here, a GPU gets a copy.

#![allow(clippy::unreadable_literal, reason = "nobody reads them")]

use crate::columns::{Field, Kind};

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// What a reduction does to the nodes of its symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// They stay as they are.
    Nothing,
    /// Roots get their fields and stay roots.
    Label,
    /// A node without children is emitted.
    Leaf,
    /// A node is emitted, and the roots become its children.
    Node,
    /// The same, with an `aux` that takes more than a multiplication.
    Special,
}

/// A row of [`PRODUCTIONS`], taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Production {
    /// How many symbols it has.
    pub(crate) length: u8,
    /// The rule's column of [`STEPS`].
    pub(crate) rule: u8,
    pub(crate) effect: Effect,
    /// The kind of the node, if it emits one.
    pub(crate) kind: Kind,
    /// How `aux` is made: `plus`, and so many times the payload and the number of the first token of `aux_symbol`.
    pub(crate) aux: u8,
    pub(crate) aux_symbol: u8,
    pub(crate) times_payload: u8,
    pub(crate) times_token: u8,
    pub(crate) plus: u32,
    /// How many symbols stay out of the node.
    pub(crate) beside: u8,
    /// A label for each symbol, or 0.
    pub(crate) labels: [u8; 8],
}

/// What a label gives to roots of a kind, by its number, and to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) kind: u8,
    pub(crate) matching: Field,
    pub(crate) other: Field,
}

// Where `aux` comes from: `accelerd_grammar::notation::Aux`.
pub(crate) const AUX_CONSTANT: u8 = 0;
const AUX_PAYLOAD: u8 = 1;
pub(crate) const AUX_SECOND: u8 = 2;
const AUX_REFERENCE: u8 = 3;
const AUX_STORE: u8 = 4;
const AUX_TOKEN: u8 = 5;
pub(crate) const AUX_LEVEL: u8 = 6;
pub(crate) const AUX_SIMPLE: u8 = 7;
pub(crate) const AUX_LETTER: u8 = 8;
pub(crate) const AUX_TEXT: u8 = 9;
pub(crate) const AUX_SOURCE: u8 = 10;

pub(crate) static UNPACKED: [Production; PRODUCTIONS.len()] = {
    let mut all = [unpacked(PRODUCTIONS[0]); PRODUCTIONS.len()];
    let mut number = 0;
    while number < all.len() {
        all[number] = unpacked(PRODUCTIONS[number]);
        number += 1;
    }
    all
};

pub(crate) static LABEL_FIELDS: [Label; LABELS.len()] = {
    let mut all = [Label { kind: 0, matching: Field::Body, other: Field::Body }; LABELS.len()];
    let mut number = 1;
    while number < all.len() {
        let [kind, matching, other] = LABELS[number];
        let matching = if kind == 0 { other } else { matching };
        all[number] =
            Label { kind, matching: Field::ALL[matching as usize - 1], other: Field::ALL[other as usize - 1] };
        number += 1;
    }
    all
};

#[expect(clippy::cast_possible_truncation, reason = "takes bytes out of a word")]
const fn unpacked(words: [u32; 4]) -> Production {
    let [bits, number, low, high] = words;
    let kind = bits >> 12 & 0xff;
    let aux = (bits >> 20 & 0xf) as u8;
    let (times_payload, times_token, plus) = match aux {
        AUX_CONSTANT => (0, 0, number),
        AUX_PAYLOAD => (1, 0, 0),
        AUX_REFERENCE => (4, 0, 0),
        AUX_STORE => (4, 0, 1),
        AUX_TOKEN => (0, 1, 0),
        _ => (0, 0, 0),
    };
    let length = (bits & 0xf) as u8;
    let effect = match (kind, aux) {
        (0, _) if low | high == 0 => Effect::Nothing,
        (0, _) => Effect::Label,
        (_, AUX_SECOND | AUX_LEVEL | AUX_SIMPLE | AUX_LETTER | AUX_TEXT | AUX_SOURCE) => Effect::Special,
        _ if bits >> 31 == 1 => Effect::Leaf,
        _ => Effect::Node,
    };
    Production {
        length,
        rule: (bits >> 4) as u8,
        effect,
        kind: Kind::ALL[if kind == 0 { 0 } else { kind as usize - 1 }],
        aux,
        aux_symbol: (bits >> 24 & 0xf) as u8,
        times_payload,
        times_token,
        plus,
        beside: (bits >> 28 & 7) as u8,
        labels: ((high as u64) << 32 | low as u64).to_le_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_fit_the_shared_memory_of_a_multiprocessor() {
        let bytes = size_of_val(&ACTIONS)
            + size_of_val(&STEP_ROWS)
            + size_of_val(&STEPS)
            + size_of_val(&GOTOS)
            + size_of_val(&GOTO_COLUMNS)
            + size_of_val(&PRODUCTIONS)
            + size_of_val(&LABELS);
        assert!(bytes < 200 << 10, "{bytes} bytes");
    }

    #[test]
    fn every_step_leads_to_a_state_or_a_production() {
        for &step in ACTIONS.iter().chain(STEPS.iter()).chain(GOTOS.iter()) {
            let number = usize::from(step & NUMBER);
            match step & !NUMBER {
                GO => assert!(number < STATES),
                ERROR => assert!(number < 2),
                REDUCE => assert!(number < PRODUCTIONS.len()),
                _ => assert!(number < PRODUCTIONS.len().max(GOTOS.len() / GOTO_WIDTH)),
            }
        }
    }
}
