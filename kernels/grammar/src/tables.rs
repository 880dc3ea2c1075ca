//! The compressed action and goto tables.
//!
//! Three optimisations shorten the parse:
//!
//! - **Unit productions are eliminated.** A production that only renames a rule (`term: factor`) emits no node. Which
//!   ones would be reduced after a rule depends on the state below and the lookahead, so a goto is indexed by all three
//!   and leads to the state after the last unit reduction.
//! - **Gotos contain the next reduction.** Where the action after a rule is another reduction, the goto is that
//!   reduction, and the state in between is skipped.
//! - **Shift-reduce.** A shift to a state whose only action is a reduction is one entry.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::Error;
use crate::automaton::{Action, Automaton};
use crate::grammar_parser::{Grammar, Symbol};

/// A table entry: the two high bits are the action, the low bits a state or a production.
pub mod entry {
    /// Shift the terminal, or push the nonterminal, and go to this state.
    pub const GOTO: u16 = 0;
    /// Reduce by this production.
    pub const REDUCE: u16 = 0x4000;
    /// Shift the terminal and reduce by this production.
    pub const SHIFT_REDUCE: u16 = 0x8000;
    /// In the goto table: the goto depends on the lookahead and is in this row of the lookahead gotos.
    pub const LOOKAHEAD: u16 = 0x8000;
    /// A syntax error.
    pub const ERROR: u16 = 0xc000;
    /// The line is complete.
    pub const ACCEPT: u16 = 0xc001;
    /// The bits of the state or production.
    pub const INDEX_MASK: u16 = 0x3fff;
}

/// The tables of the driver.
#[derive(Debug)]
pub struct Tables {
    /// Number of states.
    pub states: usize,
    /// The action by state and terminal.
    pub actions: Vec<u16>,
    /// By state: its row in `gotos`.
    pub goto_rows: Vec<u16>,
    /// Number of columns of `gotos`: rules that are reduced to.
    pub rules: usize,
    /// The goto by row and rule: an entry, or [`entry::LOOKAHEAD`] and a row of `lookahead_gotos`.
    pub gotos: Vec<u16>,
    /// By terminal: its column in `lookahead_gotos`.
    pub lookahead_columns: Vec<u16>,
    /// Number of columns of `lookahead_gotos`.
    pub lookahead_width: usize,
    /// The gotos that depend on the lookahead.
    pub lookahead_gotos: Vec<u16>,
    /// By production: the column of its rule in `gotos`.
    pub production_rules: Vec<u8>,
}

/// Builds the tables.
pub fn build(grammar: &Grammar, automaton: &Automaton) -> Result<Tables, Error> {
    let builder = Builder { grammar, automaton };
    let states = builder.reachable();
    let numbers: HashMap<usize, u16> = states.iter().copied().zip(0..).collect();
    for (what, got) in [("states", states.len()), ("productions", grammar.productions.len())] {
        if got > usize::from(entry::INDEX_MASK) {
            return Err(Error::TooMany { what, got, limit: usize::from(entry::INDEX_MASK) });
        }
    }
    let rules = builder.rules();
    let (gotos, lookahead_gotos) = builder.gotos(&states, &rules, &numbers);
    let rule_numbers: HashMap<Symbol, u8> = rules.iter().copied().zip(0..).collect();
    let rule_of =
        |production: &crate::grammar_parser::Production| rule_numbers.get(&production.rule).copied().unwrap_or(0);
    let (goto_rows, gotos) = merge_rows(&gotos);
    let (lookahead_columns, lookahead_gotos) = merge_columns(&lookahead_gotos);
    Ok(Tables {
        states: states.len(),
        actions: builder.actions(&states, &numbers).concat(),
        goto_rows,
        rules: rules.len(),
        gotos: gotos.concat(),
        lookahead_columns,
        lookahead_width: lookahead_gotos.first().map_or(0, Vec::len),
        lookahead_gotos: lookahead_gotos.concat(),
        production_rules: grammar.productions.iter().map(rule_of).collect(),
    })
}

/// An entry, with the automaton's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Goto(usize),
    Reduce(usize),
    ShiftReduce(usize),
    Accept,
    Error,
}

impl Entry {
    fn encode(self, states: &HashMap<usize, u16>) -> u16 {
        let small = |production| u16::try_from(production).expect("counted before");
        match self {
            Self::Goto(state) => entry::GOTO | states[&state],
            Self::Reduce(production) => entry::REDUCE | small(production),
            Self::ShiftReduce(production) => entry::SHIFT_REDUCE | small(production),
            Self::Accept => entry::ACCEPT,
            Self::Error => entry::ERROR,
        }
    }
}

struct Builder<'a> {
    grammar: &'a Grammar,
    automaton: &'a Automaton,
}

impl Builder<'_> {
    fn is_unit(&self, production: usize) -> bool {
        self.grammar.productions[production].is_unit(self.grammar.terminals)
    }

    fn is_empty(&self, production: usize) -> bool {
        self.grammar.productions[production].symbols.is_empty()
    }

    fn action(&self, state: usize, terminal: Symbol) -> Entry {
        match self.automaton.actions[state].get(&terminal) {
            Some(&Action::Shift(target)) => match self.only_production(target) {
                Some(production) => Entry::ShiftReduce(production),
                None => Entry::Goto(target),
            },
            Some(&Action::Reduce(production)) => Entry::Reduce(production),
            Some(Action::Accept) => Entry::Accept,
            None => Entry::Error,
        }
    }

    /// The production that a state reduces by for every lookahead. It is reduced before an unexpected terminal too: the
    /// error is detected before that terminal is shifted.
    fn only_production(&self, state: usize) -> Option<usize> {
        let actions: BTreeSet<Action> = self.automaton.actions[state].values().copied().collect();
        match actions.first() {
            Some(&Action::Reduce(production)) if actions.len() == 1 && !self.is_empty(production) => Some(production),
            _ => None,
        }
    }

    /// The goto of a rule from the state `below`, with a lookahead.
    fn goto(&self, below: usize, rule: Symbol, terminal: Symbol) -> Entry {
        let Some(&first) = self.automaton.gotos[below].get(&rule) else { return Entry::Error };
        let mut state = first;
        loop {
            match self.automaton.actions[state].get(&terminal) {
                Some(&Action::Reduce(production)) if self.is_unit(production) => {
                    state = self.automaton.gotos[below][&self.grammar.productions[production].rule];
                }
                Some(&Action::Reduce(production)) if !self.is_empty(production) => return Entry::Reduce(production),
                Some(Action::Accept) => return Entry::Accept,
                Some(Action::Shift(_) | Action::Reduce(_)) => return Entry::Goto(state),
                None => return Entry::Error,
            }
        }
    }

    /// The rules that are reduced to: those of productions other than unit productions.
    fn rules(&self) -> Vec<Symbol> {
        let numbers = 1..self.grammar.productions.len();
        let kept = numbers.filter(|&production| !self.is_unit(production));
        kept.map(|production| self.grammar.productions[production].rule).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The states that remain reachable, the start state first.
    fn reachable(&self) -> Vec<usize> {
        let rules = self.rules();
        let mut seen = BTreeSet::from([0]);
        let mut worklist = vec![0];
        while let Some(state) = worklist.pop() {
            let terminals = 0..self.grammar.terminals;
            let mut entries: Vec<Entry> = terminals.clone().map(|terminal| self.action(state, terminal)).collect();
            for &rule in rules.iter().filter(|&rule| self.automaton.gotos[state].contains_key(rule)) {
                entries.extend(terminals.clone().map(|terminal| self.goto(state, rule, terminal)));
            }
            for entry in entries {
                if let Entry::Goto(target) = entry
                    && seen.insert(target)
                {
                    worklist.push(target);
                }
            }
        }
        seen.into_iter().collect()
    }

    fn actions(&self, states: &[usize], numbers: &HashMap<usize, u16>) -> Vec<Vec<u16>> {
        let row =
            |&state| (0..self.grammar.terminals).map(|terminal| self.action(state, terminal).encode(numbers)).collect();
        states.iter().map(row).collect()
    }

    /// The gotos by state and rule, [`entry::ERROR`] where the rule cannot occur; and the rows of gotos that depend on
    /// the lookahead.
    ///
    /// Where all valid lookaheads have the same entry, it applies to an unexpected terminal too: the error is detected
    /// before that terminal is shifted.
    fn gotos(
        &self,
        states: &[usize],
        rules: &[Symbol],
        numbers: &HashMap<usize, u16>,
    ) -> (Vec<Vec<u16>>, Vec<Vec<u16>>) {
        let mut rows = Vec::new();
        let mut known: BTreeMap<Vec<u16>, u16> = BTreeMap::new();
        let mut goto_entry = |state: usize, rule: Symbol| {
            let terminals = 0..self.grammar.terminals;
            let row: Vec<u16> = terminals.map(|terminal| self.goto(state, rule, terminal).encode(numbers)).collect();
            let different: BTreeSet<u16> = row.iter().copied().filter(|&entry| entry != entry::ERROR).collect();
            match different.first() {
                None => entry::ERROR,
                Some(&only) if different.len() == 1 && only != entry::ACCEPT => only,
                Some(_) => {
                    let next = u16::try_from(rows.len()).expect("fewer rows than states and rules");
                    let index = *known.entry(row.clone()).or_insert(next);
                    if index == next {
                        rows.push(row);
                    }
                    entry::LOOKAHEAD | index
                }
            }
        };
        let gotos = states.iter().map(|&state| rules.iter().map(|&rule| goto_entry(state, rule)).collect()).collect();
        (gotos, rows)
    }
}

/// Merges rows that differ only where one of them has an error, which is never looked up. Returns the index of each
/// row, and the merged rows.
fn merge_rows(rows: &[Vec<u16>]) -> (Vec<u16>, Vec<Vec<u16>>) {
    let mut kept: Vec<Vec<u16>> = Vec::new();
    let mut indices = Vec::new();
    for row in rows {
        let fits =
            |other: &Vec<u16>| row.iter().zip(other).all(|(&a, &b)| a == b || a == entry::ERROR || b == entry::ERROR);
        let index = kept.iter().position(fits).unwrap_or(kept.len());
        if index == kept.len() {
            kept.push(row.clone());
        }
        for (cell, &entry) in kept[index].iter_mut().zip(row).filter(|(_, entry)| **entry != entry::ERROR) {
            *cell = entry;
        }
        indices.push(u16::try_from(index).expect("fewer rows than states"));
    }
    (indices, kept)
}

/// Merges equal columns. Returns the index of each column, and the rows of merged columns.
fn merge_columns(rows: &[Vec<u16>]) -> (Vec<u16>, Vec<Vec<u16>>) {
    let width = rows.first().map_or(0, Vec::len);
    let mut known: HashMap<Vec<u16>, u16> = HashMap::new();
    let mut kept = Vec::new();
    let mut indices = Vec::new();
    for column in 0..width {
        let next = u16::try_from(kept.len()).expect("few terminals");
        let index = *known.entry(rows.iter().map(|row| row[column]).collect()).or_insert(next);
        if index == next {
            kept.push(column);
        }
        indices.push(index);
    }
    (indices, rows.iter().map(|row| kept.iter().map(|&column| row[column]).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_columns_are_stored_once() {
        let (indices, rows) = merge_columns(&[vec![1, 1, 2], vec![3, 3, 4]]);
        assert_eq!((indices, rows), (vec![0, 0, 1], vec![vec![1, 2], vec![3, 4]]));
    }

    #[test]
    fn rows_are_merged_where_one_is_empty() {
        let gap = entry::ERROR;
        let (indices, rows) = merge_rows(&[vec![1, gap], vec![gap, 2], vec![3, 2]]);
        assert_eq!((indices, rows), (vec![0, 0, 1], vec![vec![1, 2], vec![3, 2]]));
    }
}
