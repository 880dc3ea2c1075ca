//! The LR(1) parser of one logical line: tokens to nodes, by the tables.
//!
//! Nodes leave it in postorder: a reduction emits its node behind the nodes of its symbols. What a reduction does is data,
//! not code, so that a GPU runs the same loop.
//!
//! Until the parent of a node is known, its slot in `parents` holds how many nodes its subtree has. The roots that a
//! symbol on the stack has left so far are then found backwards: the last node is a root, and the one before it ends where
//! the subtree begins.

use crate::columns::{Columns, Field, Kind};
use crate::tables;
use crate::tokens::Tokens;

/// The stack may hold so many symbols. CPython gives up earlier, but not at one depth for all grammar.
const MAX_DEPTH: usize = 60_000;

/// Where the parser stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The token that cannot follow those before it; behind the last one, the end of the line.
    Wrong(usize),
    /// The token at which the stack was full.
    Deep(usize),
}

/// A symbol on the stack.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    /// The state behind it.
    state: u16,
    /// Its first token; of an empty symbol the one that follows.
    token: u32,
    /// Its first node; of a symbol without nodes the next one to be emitted.
    node: u32,
}

/// A parser with its stack, for one line after the other.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    stack: Vec<Symbol>,
}

/// What a production does, unpacked from the tables.
#[derive(Clone, Copy)]
struct Production {
    words: [u32; 4],
}

impl Production {
    fn length(self) -> usize {
        (self.words[0] & 0xf) as usize
    }

    fn rule(self) -> usize {
        (self.words[0] >> 4 & 0xff) as usize
    }

    fn kind(self) -> usize {
        (self.words[0] >> 12 & 0xff) as usize
    }

    fn aux(self) -> u32 {
        self.words[0] >> 20 & 0xf
    }

    fn aux_symbol(self) -> usize {
        (self.words[0] >> 24 & 0xf) as usize
    }

    fn beside(self) -> usize {
        (self.words[0] >> 28) as usize
    }

    fn label(self, symbol: usize) -> usize {
        (self.words[2 + symbol / 4] >> (symbol % 4 * 8) & 0xff) as usize
    }

    fn has_labels(self) -> bool {
        self.words[2] | self.words[3] != 0
    }
}

/// The text, its tokens and the nodes made of them.
struct Line<'a> {
    text: &'a [u8],
    tokens: &'a Tokens,
    columns: &'a mut Columns,
    /// The next token.
    at: usize,
}

impl Driver {
    /// Parses the tokens from `first` up to `end` and puts their nodes behind those of the columns.
    ///
    /// Roots keep the size of their subtree in `parents`. After a stop there may be nodes of the part before it.
    pub(crate) fn parse(
        &mut self,
        text: &[u8],
        tokens: &Tokens,
        (first, end): (usize, usize),
        columns: &mut Columns,
    ) -> Result<(), Stop> {
        let mut line = Line { text, tokens, columns, at: first };
        self.stack.clear();
        self.stack.push(Symbol { state: 0, token: small(first), node: line.next_node() });
        loop {
            let terminal = terminal(tokens, line.at, end);
            let state = self.stack.last().map_or(0, |top| top.state);
            let mut step = action(state, terminal);
            if step & !tables::NUMBER == tables::GO || step & !tables::NUMBER == tables::TAKE_AND_REDUCE {
                if self.stack.len() >= MAX_DEPTH {
                    return Err(Stop::Deep(line.at));
                }
                self.stack.push(Symbol { state: step, token: small(line.at), node: line.next_node() });
                line.at += 1;
            }
            while matches!(step & !tables::NUMBER, tables::REDUCE | tables::TAKE_AND_REDUCE) {
                step = self.reduce(&mut line, usize::from(step & tables::NUMBER), end);
            }
            match step {
                tables::ACCEPT => return Ok(()),
                tables::ERROR => return Err(Stop::Wrong(line.at)),
                _ => {}
            }
        }
    }

    /// Replaces the symbols of a production by its rule and says what to do next.
    fn reduce(&mut self, line: &mut Line, number: usize, end: usize) -> u16 {
        let production = Production { words: tables::PRODUCTIONS[number] };
        let base = self.stack.len() - production.length();
        let below = self.stack[base - 1];
        let symbols = &self.stack[base..];
        let mut symbol = match symbols.first() {
            Some(&symbol) => symbol,
            None => Symbol { state: 0, token: small(line.at), node: line.next_node() },
        };
        line.perform(production, below, symbols);
        let step = goto(below.state, production.rule(), terminal(line.tokens, line.at, end));
        symbol.state = step & tables::NUMBER;
        self.stack.truncate(base);
        self.stack.push(symbol);
        step
    }
}

impl Line<'_> {
    fn next_node(&self) -> u32 {
        small(self.columns.kinds.len())
    }

    /// What a production does to the nodes.
    fn perform(&mut self, production: Production, below: Symbol, symbols: &[Symbol]) {
        if production.kind() == 0 {
            if production.has_labels() {
                self.label(production, symbols);
            }
            return;
        }
        if production.aux() == AUX_TEXT && self.touches_text(below) {
            return;
        }
        self.emit(production, below, symbols);
    }

    /// Whether the symbol before ends with text, which the text that follows belongs to.
    fn touches_text(&self, below: Symbol) -> bool {
        below.node < self.next_node() && self.columns.kinds.last() == Some(&Kind::Constant)
    }

    /// Gives the roots of labelled symbols their field; they remain roots.
    fn label(&mut self, production: Production, symbols: &[Symbol]) {
        let mut next = self.columns.kinds.len();
        for (place, symbol) in symbols.iter().enumerate().rev() {
            let label = production.label(place);
            while next > symbol.node as usize {
                let root = next - 1;
                if label != 0 {
                    self.columns.fields[root] = field(label, self.columns.kinds[root]);
                }
                next -= self.columns.parents[root] as usize;
            }
        }
    }

    fn emit(&mut self, production: Production, below: Symbol, symbols: &[Symbol]) {
        let node = self.columns.kinds.len();
        let aux = self.aux(production, below, symbols);
        let mut next = node;
        for (place, symbol) in symbols.iter().enumerate().skip(production.beside()).rev() {
            let label = production.label(place);
            while next > symbol.node as usize {
                let root = next - 1;
                if label != 0 {
                    self.columns.fields[root] = field(label, self.columns.kinds[root]);
                }
                next -= self.columns.parents[root] as usize;
                self.columns.parents[root] = small(node);
            }
        }
        let first = symbols.first().map_or(self.at, |symbol| symbol.token as usize);
        self.columns.kinds.push(Kind::ALL[production.kind() - 1]);
        self.columns.fields.push(Field::Body);
        self.columns.parents.push(small(node - next) + 1);
        self.columns.starts.push(self.tokens.starts.get(first).copied().unwrap_or(0));
        self.columns.ends.push(self.tokens.ends[self.at - 1]);
        self.columns.aux.push(aux);
    }

    fn aux(&self, production: Production, below: Symbol, symbols: &[Symbol]) -> u32 {
        let token = symbols.get(production.aux_symbol()).map_or(0, |symbol| symbol.token as usize);
        match production.aux() {
            AUX_PAYLOAD => self.tokens.payloads[token],
            AUX_SECOND => self.tokens.payloads[token + 1],
            AUX_REFERENCE => self.tokens.payloads[token] * 4,
            AUX_STORE => self.tokens.payloads[token] * 4 + 1,
            AUX_TOKEN | AUX_TEXT => small(token),
            AUX_SOURCE => below.token - 1,
            AUX_LEVEL => {
                let end = symbols.get(production.aux_symbol() + 1).map_or(self.at, |symbol| symbol.token as usize);
                (token..end).map(|token| self.tokens.ends[token] - self.tokens.starts[token]).sum()
            }
            AUX_SIMPLE => self.simple(token, symbols[production.aux_symbol() + 1].node as usize - 1),
            AUX_LETTER => self.letter(token),
            _ => production.words[1],
        }
    }

    /// 1 if a node is a name that starts with the symbol it was left by, so not in parentheses.
    fn simple(&self, token: usize, node: usize) -> u32 {
        let bare = self.columns.starts[node] == self.tokens.starts[token];
        u32::from(bare && self.columns.kinds[node] == Kind::Name)
    }

    /// The character of a token of one byte, else 0.
    fn letter(&self, token: usize) -> u32 {
        let (start, end) = (self.tokens.starts[token] as usize, self.tokens.ends[token] as usize);
        match self.text.get(start..end) {
            Some(&[letter]) => u32::from(letter),
            _ => 0,
        }
    }
}

// Where `aux` comes from: `accelerd_grammar::notation::Aux`.
const AUX_PAYLOAD: u32 = 1;
const AUX_SECOND: u32 = 2;
const AUX_REFERENCE: u32 = 3;
const AUX_STORE: u32 = 4;
const AUX_TOKEN: u32 = 5;
const AUX_LEVEL: u32 = 6;
const AUX_SIMPLE: u32 = 7;
const AUX_LETTER: u32 = 8;
const AUX_TEXT: u32 = 9;
const AUX_SOURCE: u32 = 10;

/// The terminal at a token; behind the last one the end of the line.
fn terminal(tokens: &Tokens, at: usize, end: usize) -> usize {
    if at < end { tokens.kinds[at] as usize } else { tables::TERMINALS - 1 }
}

fn action(state: u16, terminal: usize) -> u16 {
    let row = usize::from(tables::ACTION_ROWS[usize::from(state)]);
    let column = usize::from(tables::ACTION_COLUMNS[terminal]);
    tables::ACTION_CELLS[row * tables::ACTION_WIDTH + column]
}

fn goto(below: u16, rule: usize, terminal: usize) -> u16 {
    let steps = usize::from(tables::STEP_ROWS[usize::from(below)]) * tables::STEP_WIDTH;
    let step = usize::from(tables::STEP_CELLS[steps + usize::from(tables::STEP_COLUMNS[rule])]);
    let row = usize::from(tables::GOTO_ROWS[step]) * tables::GOTO_WIDTH;
    tables::GOTO_CELLS[row + usize::from(tables::GOTO_COLUMNS[terminal])]
}

/// The field that a label gives to a root.
fn field(label: usize, kind: Kind) -> Field {
    let [looked_for, matching, other] = tables::LABELS[label];
    Field::ALL[usize::from(if kind as u8 == looked_for { matching } else { other }) - 1]
}

/// Rows and tokens are fewer than bytes, and those fit 32 bits.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
