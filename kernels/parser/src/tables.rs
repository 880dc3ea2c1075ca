//! The LR tables that `accelerd-grammar` generates, for the driver and the GPU.

#![allow(clippy::unreadable_literal, reason = "generated")]

use crate::columns::{Field, Kind};

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// The effect of a reduction on the nodes of its symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SemanticAction {
    None,
    /// Sets the fields of roots.
    Label,
    /// Emits a node without children.
    Leaf,
    /// Emits a node whose children are the roots.
    Node,
    /// As `Node`, with an `aux` that is no linear function of payload and token number.
    Special,
}

/// An unpacked row of [`PRODUCTIONS`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Production {
    /// Symbols of its right-hand side.
    pub(crate) length: u8,
    /// The rule's column of [`GOTOS`].
    pub(crate) nonterminal: u8,
    pub(crate) action: SemanticAction,
    /// The kind of the node, if it emits one.
    pub(crate) kind: Kind,
    /// `aux` is `plus` + `times_payload` * payload + `times_token` * number, of the first token of symbol `aux_symbol`.
    pub(crate) aux: u8,
    pub(crate) aux_symbol: u8,
    pub(crate) times_payload: u8,
    pub(crate) times_token: u8,
    pub(crate) plus: u32,
    /// Leading symbols that are not part of the node.
    pub(crate) skipped: u8,
    /// A label for each symbol, or 0.
    pub(crate) labels: [u8; 8],
}

/// The field that a label sets: `matching` for roots of a kind, `other` for all others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) kind: u8,
    pub(crate) matching: Field,
    pub(crate) other: Field,
}

// Sources of `aux`, as `accelerd_grammar::grammar_parser::Aux`.
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

pub(crate) static PRODUCTION_TABLE: [Production; PRODUCTIONS.len()] = {
    let mut all = [unpack(PRODUCTIONS[0]); PRODUCTIONS.len()];
    let mut number = 0;
    while number < all.len() {
        all[number] = unpack(PRODUCTIONS[number]);
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
const fn unpack(words: [u32; 4]) -> Production {
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
    let action = match (kind, aux) {
        (0, _) if low | high == 0 => SemanticAction::None,
        (0, _) => SemanticAction::Label,
        (_, AUX_SECOND | AUX_LEVEL | AUX_SIMPLE | AUX_LETTER | AUX_TEXT | AUX_SOURCE) => SemanticAction::Special,
        _ if bits >> 31 == 1 => SemanticAction::Leaf,
        _ => SemanticAction::Node,
    };
    Production {
        length,
        nonterminal: (bits >> 4) as u8,
        action,
        kind: Kind::ALL[if kind == 0 { 0 } else { kind as usize - 1 }],
        aux,
        aux_symbol: (bits >> 24 & 0xf) as u8,
        times_payload,
        times_token,
        plus,
        skipped: (bits >> 28 & 7) as u8,
        labels: ((high as u64) << 32 | low as u64).to_le_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_fit_the_shared_memory_of_a_multiprocessor() {
        let bytes = size_of_val(&ACTIONS)
            + size_of_val(&GOTO_ROWS)
            + size_of_val(&GOTOS)
            + size_of_val(&LOOKAHEAD_GOTOS)
            + size_of_val(&LOOKAHEAD_COLUMNS)
            + size_of_val(&PRODUCTIONS)
            + size_of_val(&LABELS);
        assert!(bytes < 200 << 10, "{bytes} bytes");
    }

    #[test]
    fn every_entry_has_a_valid_state_or_production() {
        for &entry in ACTIONS.iter().chain(GOTOS.iter()).chain(LOOKAHEAD_GOTOS.iter()) {
            let number = usize::from(entry & INDEX_MASK);
            match entry & !INDEX_MASK {
                GOTO => assert!(number < STATES),
                ERROR => assert!(number < 2),
                REDUCE => assert!(number < PRODUCTIONS.len()),
                _ => assert!(number < PRODUCTIONS.len().max(LOOKAHEAD_GOTOS.len() / LOOKAHEAD_WIDTH)),
            }
        }
    }
}
