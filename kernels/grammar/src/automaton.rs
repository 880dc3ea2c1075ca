//! The LALR(1) automaton, built by merging LR(1) states with equal cores as they are found.

use std::collections::{BTreeMap, HashMap};

use crate::Error;
use crate::grammar_parser::{Grammar, Symbol};

/// A set of terminals.
type Terminals = u128;

/// An LR(0) item: a production and the position of its dot.
type Item = (usize, usize);

/// The action of a state for a lookahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Shift the terminal and go to a state.
    Shift(usize),
    /// Reduce by a production.
    Reduce(usize),
    /// The line is complete.
    Accept,
}

/// The states' actions and gotos; state 0 is the start.
#[derive(Debug, Default)]
pub struct Automaton {
    /// By state: the action for each terminal; without one, a syntax error.
    pub actions: Vec<BTreeMap<Symbol, Action>>,
    /// By state: the goto of each rule.
    pub gotos: Vec<BTreeMap<Symbol, usize>>,
}

/// Builds the automaton of a grammar; a conflict is an error.
pub fn build(grammar: &Grammar) -> Result<Automaton, Error> {
    if grammar.terminals > 128 {
        return Err(Error::TooMany { what: "terminals", got: grammar.terminals, limit: 128 });
    }
    let mut builder = Builder::new(grammar);
    while let Some(state) = builder.queue.pop() {
        builder.expand(state);
    }
    builder.finish()
}

struct State {
    /// Its kernel items, sorted, with their lookaheads.
    kernel: Vec<(Item, Terminals)>,
    next: BTreeMap<Symbol, usize>,
    queued: bool,
}

struct Builder<'a> {
    grammar: &'a Grammar,
    /// Productions by rule.
    productions: Vec<Vec<usize>>,
    /// FIRST of each symbol.
    first: Vec<Terminals>,
    nullable: Vec<bool>,
    states: Vec<State>,
    by_core: HashMap<Vec<Item>, usize>,
    queue: Vec<usize>,
}

impl<'a> Builder<'a> {
    fn new(grammar: &'a Grammar) -> Self {
        let mut productions = vec![Vec::new(); grammar.names.len()];
        for (number, production) in grammar.productions.iter().enumerate() {
            productions[production.rule].push(number);
        }
        let (first, nullable) = first_sets(grammar);
        let kernel = vec![((0, 0), 1 << grammar.end())];
        let by_core = HashMap::from([(vec![(0, 0)], 0)]);
        let states = vec![State { kernel, next: BTreeMap::new(), queued: true }];
        Self { grammar, productions, first, nullable, states, by_core, queue: vec![0] }
    }

    fn next_symbol(&self, (production, dot): Item) -> Option<Symbol> {
        self.grammar.productions[production].symbols.get(dot).copied()
    }

    /// The lookaheads of the symbol after the dot, given those of the item.
    fn lookaheads(&self, (production, dot): Item, inherited: Terminals) -> Terminals {
        let mut found = 0;
        for &symbol in &self.grammar.productions[production].symbols[dot + 1..] {
            found |= self.first[symbol];
            if !self.nullable[symbol] {
                return found;
            }
        }
        found | inherited
    }

    /// The closure of a state: its items with their lookaheads.
    fn closure(&self, state: usize) -> Vec<(Item, Terminals)> {
        let mut items = self.states[state].kernel.clone();
        let mut closure: BTreeMap<Symbol, Terminals> = BTreeMap::new();
        let mut worklist: Vec<(Item, Terminals)> = items.clone();
        while let Some((item, terminals)) = worklist.pop() {
            let Some(symbol) = self.next_symbol(item).filter(|&symbol| symbol >= self.grammar.terminals) else {
                continue;
            };
            let follow = self.lookaheads(item, terminals);
            let known = closure.get(&symbol).copied();
            let merged = known.unwrap_or(0) | follow;
            if known != Some(merged) {
                closure.insert(symbol, merged);
                worklist.extend(self.productions[symbol].iter().map(|&production| ((production, 0), merged)));
            }
        }
        for (symbol, terminals) in closure {
            items.extend(self.productions[symbol].iter().map(|&production| ((production, 0), terminals)));
        }
        items
    }

    fn expand(&mut self, state: usize) {
        self.states[state].queued = false;
        let mut kernels: BTreeMap<Symbol, BTreeMap<Item, Terminals>> = BTreeMap::new();
        for (item, terminals) in self.closure(state) {
            if let Some(symbol) = self.next_symbol(item) {
                *kernels.entry(symbol).or_default().entry((item.0, item.1 + 1)).or_default() |= terminals;
            }
        }
        for (symbol, kernel) in kernels {
            let target = self.merge(kernel.into_iter().collect());
            self.states[state].next.insert(symbol, target);
        }
    }

    /// The state with this core; it is queued again if its lookaheads grow.
    fn merge(&mut self, kernel: Vec<(Item, Terminals)>) -> usize {
        let core: Vec<Item> = kernel.iter().map(|&(item, _)| item).collect();
        let Some(&state) = self.by_core.get(&core) else {
            let state = self.states.len();
            self.by_core.insert(core, state);
            self.states.push(State { kernel, next: BTreeMap::new(), queued: true });
            self.queue.push(state);
            return state;
        };
        let old = &mut self.states[state];
        let mut grown = false;
        for (mine, theirs) in old.kernel.iter_mut().zip(&kernel) {
            grown |= mine.1 | theirs.1 != mine.1;
            mine.1 |= theirs.1;
        }
        if grown && !old.queued {
            old.queued = true;
            self.queue.push(state);
        }
        state
    }

    fn finish(self) -> Result<Automaton, Error> {
        let mut automaton = Automaton::default();
        for state in 0..self.states.len() {
            automaton.actions.push(self.actions(state)?);
            let next = self.states[state].next.iter().map(|(&symbol, &target)| (symbol, target));
            automaton.gotos.push(next.filter(|&(symbol, _)| symbol >= self.grammar.terminals).collect());
        }
        Ok(automaton)
    }

    fn actions(&self, state: usize) -> Result<BTreeMap<Symbol, Action>, Error> {
        let next = self.states[state].next.iter().filter(|&(&symbol, _)| symbol < self.grammar.terminals);
        let mut actions: BTreeMap<_, _> = next.map(|(&symbol, &target)| (symbol, Action::Shift(target))).collect();
        for (item, terminals) in self.closure(state) {
            if self.next_symbol(item).is_some() {
                continue;
            }
            let action = if item.0 == 0 { Action::Accept } else { Action::Reduce(item.0) };
            for terminal in (0..self.grammar.terminals).filter(|&terminal| terminals >> terminal & 1 == 1) {
                match actions.insert(terminal, action) {
                    Some(other) if other != action => return Err(self.conflict(terminal, other, action)),
                    _ => {}
                }
            }
        }
        Ok(actions)
    }

    fn conflict(&self, terminal: Symbol, first: Action, second: Action) -> Error {
        let show = |action| match action {
            Action::Shift(state) => {
                let items = &self.states[state].kernel;
                let items: Vec<_> = items.iter().map(|&((production, _), _)| self.grammar.show(production)).collect();
                format!("shift in [{}]", items.join("; "))
            }
            Action::Reduce(production) => format!("reduce [{}]", self.grammar.show(production)),
            Action::Accept => "accept".into(),
        };
        Error::Conflict { terminal: self.grammar.names[terminal].clone(), first: show(first), second: show(second) }
    }
}

/// FIRST of each symbol, and whether it is nullable.
fn first_sets(grammar: &Grammar) -> (Vec<Terminals>, Vec<bool>) {
    let mut first: Vec<Terminals> = vec![0; grammar.names.len()];
    let mut nullable = vec![false; grammar.names.len()];
    for (terminal, set) in first.iter_mut().enumerate().take(grammar.terminals) {
        *set = 1 << terminal;
    }
    loop {
        let before = (first.clone(), nullable.clone());
        for production in &grammar.productions {
            let empty = production.symbols.iter().take_while(|&&symbol| nullable[symbol]).count();
            nullable[production.rule] |= empty == production.symbols.len();
            for &symbol in production.symbols.iter().take(empty + 1) {
                first[production.rule] |= first[symbol];
            }
        }
        if before == (first.clone(), nullable.clone()) {
            return (first, nullable);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Vocabulary, grammar_parser};

    fn vocabulary() -> Vocabulary {
        let terminals = ["Plus", "Name"].map(str::to_owned).to_vec();
        Vocabulary { terminals, kinds: Vec::new(), fields: Vec::new(), operators: Vec::new() }
    }

    #[test]
    fn an_ambiguous_grammar_is_rejected() {
        let grammar = grammar_parser::parse("sum\n  | sum Plus sum\n  | Name\n", &vocabulary()).unwrap();
        let problem = build(&grammar).unwrap_err();
        assert!(matches!(problem, Error::Conflict { ref terminal, .. } if terminal == "Plus"), "{problem}");
    }

    #[test]
    fn a_left_recursive_grammar_has_states_for_each_step() {
        let grammar = grammar_parser::parse("sum\n  | sum Plus Name\n  | Name\n", &vocabulary()).unwrap();
        let automaton = build(&grammar).unwrap();
        assert_eq!(automaton.actions.len(), 5);
        assert_eq!(automaton.actions[0].len(), 1, "only a name starts a sum");
    }
}
