//! From states to tables: takes out the steps that leave nothing behind, and writes down what is left densely.
//!
//! Three things happen to the automaton.
//!
//! - **Copies go.** A production that only renames a rule (`term: factor`) costs a step and leaves no node. Which of them
//!   would be taken behind a rule depends on the state below and on the next terminal alone, so where to go behind a rule
//!   is asked of all three at once, and the answer is the state behind the last copy.
//! - **What follows is in the answer.** If the next step behind a rule is another reduction, the answer is that
//!   reduction; the state in between is never looked at.
//! - **A terminal that ends its production is taken and reduced in one step**, where nothing else could happen behind it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::Error;
use crate::automaton::{Action, Automaton};
use crate::notation::{Grammar, Symbol};

/// An entry of the tables: the two high bits say what to do, the low ones with which state or production.
pub mod entry {
    /// Take the terminal, or the rule, and go to this state.
    pub const GO: u16 = 0;
    /// Reduce this production.
    pub const REDUCE: u16 = 0x4000;
    /// Take the terminal and reduce this production.
    pub const TAKE_AND_REDUCE: u16 = 0x8000;
    /// Behind a rule, where nothing is taken: ask this row of the table by terminals.
    pub const LOOK: u16 = 0x8000;
    /// The line is wrong here.
    pub const ERROR: u16 = 0xc000;
    /// The line is complete.
    pub const ACCEPT: u16 = 0xc001;
    /// The bits of the state or production.
    pub const NUMBER: u16 = 0x3fff;
}

/// What the driver needs.
#[derive(Debug)]
pub struct Tables {
    /// How many states there are.
    pub states: usize,
    /// What to do, by state and terminal.
    pub actions: Vec<u16>,
    /// By state: its row in `steps`.
    pub step_rows: Vec<u16>,
    /// How many rules have a column in `steps`.
    pub rules: usize,
    /// What to do behind a rule, by row and rule: an entry, or [`entry::LOOK`] and a row of `gotos`.
    pub steps: Vec<u16>,
    /// By terminal: its column in `gotos`.
    pub goto_columns: Vec<u16>,
    /// How many columns `gotos` has.
    pub goto_width: usize,
    /// What to do behind a rule where that depends on the next terminal.
    pub gotos: Vec<u16>,
    /// By production: the column that its rule has in `steps`.
    pub production_rules: Vec<u8>,
}

/// Builds the tables.
pub fn build(grammar: &Grammar, automaton: &Automaton) -> Result<Tables, Error> {
    let builder = Builder { grammar, automaton };
    let states = builder.reachable();
    let numbers: HashMap<usize, u16> = states.iter().copied().zip(0..).collect();
    for (what, got) in [("states", states.len()), ("productions", grammar.productions.len())] {
        if got > usize::from(entry::NUMBER) {
            return Err(Error::TooMany { what, got, limit: usize::from(entry::NUMBER) });
        }
    }
    let rules = builder.rules();
    let (steps, gotos) = builder.gotos(&states, &rules, &numbers);
    let rule_numbers: HashMap<Symbol, u8> = rules.iter().copied().zip(0..).collect();
    let rule_of = |production: &crate::notation::Production| rule_numbers.get(&production.rule).copied().unwrap_or(0);
    let (step_rows, steps) = overlaid(&steps);
    let (goto_columns, gotos) = narrowed(&gotos);
    Ok(Tables {
        states: states.len(),
        actions: builder.actions(&states, &numbers).concat(),
        step_rows,
        rules: rules.len(),
        steps: steps.concat(),
        goto_columns,
        goto_width: gotos.first().map_or(0, Vec::len),
        gotos: gotos.concat(),
        production_rules: grammar.productions.iter().map(rule_of).collect(),
    })
}

/// What follows a terminal or a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Go(usize),
    Reduce(usize),
    TakeAndReduce(usize),
    Accept,
    Error,
}

impl Step {
    fn number(self, states: &HashMap<usize, u16>) -> u16 {
        let small = |production| u16::try_from(production).expect("counted before");
        match self {
            Self::Go(state) => entry::GO | states[&state],
            Self::Reduce(production) => entry::REDUCE | small(production),
            Self::TakeAndReduce(production) => entry::TAKE_AND_REDUCE | small(production),
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
    fn is_copy(&self, production: usize) -> bool {
        self.grammar.productions[production].is_copy(self.grammar.terminals)
    }

    fn is_empty(&self, production: usize) -> bool {
        self.grammar.productions[production].symbols.is_empty()
    }

    fn action(&self, state: usize, terminal: Symbol) -> Step {
        match self.automaton.actions[state].get(&terminal) {
            Some(&Action::Shift(target)) => match self.only_production(target) {
                Some(production) => Step::TakeAndReduce(production),
                None => Step::Go(target),
            },
            Some(&Action::Reduce(production)) => Step::Reduce(production),
            Some(Action::Accept) => Step::Accept,
            None => Step::Error,
        }
    }

    /// The production that a state reduces whatever follows. Before a wrong terminal it is reduced as well: the error shows
    /// before that terminal is taken.
    fn only_production(&self, state: usize) -> Option<usize> {
        let actions: BTreeSet<Action> = self.automaton.actions[state].values().copied().collect();
        match actions.first() {
            Some(&Action::Reduce(production)) if actions.len() == 1 && !self.is_empty(production) => Some(production),
            _ => None,
        }
    }

    /// What happens behind a rule, above a state and before a terminal.
    fn goto(&self, below: usize, rule: Symbol, terminal: Symbol) -> Step {
        let Some(&first) = self.automaton.gotos[below].get(&rule) else { return Step::Error };
        let mut state = first;
        loop {
            match self.automaton.actions[state].get(&terminal) {
                Some(&Action::Reduce(production)) if self.is_copy(production) => {
                    state = self.automaton.gotos[below][&self.grammar.productions[production].rule];
                }
                Some(&Action::Reduce(production)) if !self.is_empty(production) => return Step::Reduce(production),
                Some(Action::Accept) => return Step::Accept,
                Some(Action::Shift(_) | Action::Reduce(_)) => return Step::Go(state),
                None => return Step::Error,
            }
        }
    }

    /// The rules that something is reduced to: those of productions that are no copies.
    fn rules(&self) -> Vec<Symbol> {
        let numbers = 1..self.grammar.productions.len();
        let kept = numbers.filter(|&production| !self.is_copy(production));
        kept.map(|production| self.grammar.productions[production].rule).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The states that are still looked at, the start first.
    fn reachable(&self) -> Vec<usize> {
        let rules = self.rules();
        let mut seen = BTreeSet::from([0]);
        let mut open = vec![0];
        while let Some(state) = open.pop() {
            let terminals = 0..self.grammar.terminals;
            let mut steps: Vec<Step> = terminals.clone().map(|terminal| self.action(state, terminal)).collect();
            for &rule in rules.iter().filter(|&rule| self.automaton.gotos[state].contains_key(rule)) {
                steps.extend(terminals.clone().map(|terminal| self.goto(state, rule, terminal)));
            }
            for step in steps {
                if let Step::Go(target) = step
                    && seen.insert(target)
                {
                    open.push(target);
                }
            }
        }
        seen.into_iter().collect()
    }

    fn actions(&self, states: &[usize], numbers: &HashMap<usize, u16>) -> Vec<Vec<u16>> {
        let row =
            |&state| (0..self.grammar.terminals).map(|terminal| self.action(state, terminal).number(numbers)).collect();
        states.iter().map(row).collect()
    }

    /// For each state and rule what to do, [`entry::ERROR`] where the rule cannot stand; and the rows where that depends on
    /// the next terminal.
    ///
    /// Where all terminals that may follow lead to the same step, it is taken before a wrong terminal as well: the error
    /// shows before that terminal is taken.
    fn gotos(
        &self,
        states: &[usize],
        rules: &[Symbol],
        numbers: &HashMap<usize, u16>,
    ) -> (Vec<Vec<u16>>, Vec<Vec<u16>>) {
        let mut rows = Vec::new();
        let mut known: BTreeMap<Vec<u16>, u16> = BTreeMap::new();
        let mut step = |state: usize, rule: Symbol| {
            let terminals = 0..self.grammar.terminals;
            let row: Vec<u16> = terminals.map(|terminal| self.goto(state, rule, terminal).number(numbers)).collect();
            let different: BTreeSet<u16> = row.iter().copied().filter(|&step| step != entry::ERROR).collect();
            match different.first() {
                None => entry::ERROR,
                Some(&only) if different.len() == 1 && only != entry::ACCEPT => only,
                Some(_) => {
                    let next = u16::try_from(rows.len()).expect("fewer rows than states and rules");
                    let place = *known.entry(row.clone()).or_insert(next);
                    if place == next {
                        rows.push(row);
                    }
                    entry::LOOK | place
                }
            }
        };
        let steps = states.iter().map(|&state| rules.iter().map(|&rule| step(state, rule)).collect()).collect();
        (steps, rows)
    }
}

/// Lays rows over each other that differ only where one of them has an error, which is never asked for. Gives each row's
/// place, and the rows that are left.
fn overlaid(rows: &[Vec<u16>]) -> (Vec<u16>, Vec<Vec<u16>>) {
    let mut kept: Vec<Vec<u16>> = Vec::new();
    let mut places = Vec::new();
    for row in rows {
        let fits =
            |other: &Vec<u16>| row.iter().zip(other).all(|(&a, &b)| a == b || a == entry::ERROR || b == entry::ERROR);
        let place = kept.iter().position(fits).unwrap_or(kept.len());
        if place == kept.len() {
            kept.push(row.clone());
        }
        for (cell, &step) in kept[place].iter_mut().zip(row).filter(|(_, step)| **step != entry::ERROR) {
            *cell = step;
        }
        places.push(u16::try_from(place).expect("fewer rows than states"));
    }
    (places, kept)
}

/// Stores equal columns once: gives each column's place, and the rows with the columns that are left.
fn narrowed(rows: &[Vec<u16>]) -> (Vec<u16>, Vec<Vec<u16>>) {
    let width = rows.first().map_or(0, Vec::len);
    let mut known: HashMap<Vec<u16>, u16> = HashMap::new();
    let mut kept = Vec::new();
    let mut places = Vec::new();
    for column in 0..width {
        let next = u16::try_from(kept.len()).expect("few terminals");
        let place = *known.entry(rows.iter().map(|row| row[column]).collect()).or_insert(next);
        if place == next {
            kept.push(column);
        }
        places.push(place);
    }
    (places, rows.iter().map(|row| kept.iter().map(|&column| row[column]).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_columns_are_stored_once() {
        let (places, rows) = narrowed(&[vec![1, 1, 2], vec![3, 3, 4]]);
        assert_eq!((places, rows), (vec![0, 0, 1], vec![vec![1, 2], vec![3, 4]]));
    }

    #[test]
    fn rows_are_laid_over_each_other_where_one_is_empty() {
        let gap = entry::ERROR;
        let (places, rows) = overlaid(&[vec![1, gap], vec![gap, 2], vec![3, 2]]);
        assert_eq!((places, rows), (vec![0, 0, 1], vec![vec![1, 2], vec![3, 2]]));
    }
}
