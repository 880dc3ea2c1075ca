//! The LR(1) parser of one logical line: tokens to nodes, by the tables.
//!
//! Nodes leave it in postorder: a reduction emits its node behind the nodes of its symbols. What a reduction does is data,
//! not code, so that a GPU runs the same loop.
//!
//! Until the parent of a node is known, its slot in `parents` holds how many nodes its subtree has. The roots that a
//! symbol on the stack has left so far are then found backwards: the last node is a root, and the one before it ends where
//! the subtree begins.

use crate::columns::{Field, Kind};
use crate::rows::Rows;
use crate::tables::{self, Effect, LABEL_FIELDS, Production, UNPACKED};
use crate::tokens::Tokens;

/// The stack holds at most so many symbols. CPython gives up earlier, but not at one depth for all grammar.
const MAX_DEPTH: usize = 60_000;

/// Where the parser stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The token that cannot follow those before it; behind the last one, the end of the line.
    Wrong(usize),
    /// The token at which the stack was full.
    Deep(usize),
}

/// What there was no more room for.
enum Full {
    Rows,
    Stack,
}

/// A symbol on the stack.
#[derive(Clone, Copy, Debug, Default)]
struct Symbol {
    /// Its first token; of an empty symbol the one that follows.
    token: u32,
    /// Its first node; of a symbol without nodes the next one to be emitted.
    node: u32,
    /// Where the row of `STEPS` of the state behind it starts.
    steps: u16,
}

/// A parser with its stack, for one line after the other.
#[derive(Debug)]
pub(crate) struct Driver {
    stack: Vec<Symbol>,
}

impl Default for Driver {
    fn default() -> Self {
        Self { stack: vec![Symbol::default(); 128] }
    }
}

impl Driver {
    /// Parses the tokens from `first` up to `end` and puts their nodes behind those that are there.
    ///
    /// Roots keep the size of their subtree in `parents`. After a stop there may be nodes of the part before it.
    pub(crate) fn parse(
        &mut self,
        text: &[u8],
        tokens: &Tokens,
        range: (usize, usize),
        rows: &mut Rows,
    ) -> Result<(), Stop> {
        let before = rows.len;
        loop {
            rows.len = before;
            match run(&mut self.stack, text, tokens, range, rows) {
                Ok(outcome) => return outcome,
                Err(Full::Rows) => rows.grow(),
                Err(Full::Stack) if self.stack.len() < MAX_DEPTH => {
                    self.stack.resize(self.stack.len() * 2, Symbol::default());
                }
                Err(Full::Stack) => return Err(Stop::Deep(range.0)),
            }
        }
    }
}

/// The columns and tokens as slices, of equal lengths each, which the loop keeps in registers.
struct Line<'a> {
    text: &'a [u8],
    kinds: &'a mut [Kind],
    fields: &'a mut [Field],
    parents: &'a mut [u32],
    starts: &'a mut [u32],
    ends: &'a mut [u32],
    aux: &'a mut [u32],
    token_starts: &'a [u32],
    token_ends: &'a [u32],
    payloads: &'a [u32],
    /// The next row.
    next: usize,
    /// The next token.
    at: usize,
}

/// The high bits of an entry.
const WHAT: u16 = !tables::NUMBER;
const END: usize = tables::TERMINALS - 1;

fn run(
    stack: &mut [Symbol],
    text: &[u8],
    tokens: &Tokens,
    (first, end): (usize, usize),
    rows: &mut Rows,
) -> Result<Result<(), Stop>, Full> {
    let kinds = &tokens.kinds[..end];
    let terminal = |at: usize| kinds.get(at).map_or(END, |&kind| kind as usize);
    let mut line = Line::new(text, tokens, first, end, rows);
    let mut top = 0;
    let mut lookahead = terminal(first);
    let mut column = usize::from(tables::GOTO_COLUMNS[lookahead]);
    // The state behind the topmost symbol is here and not on the stack, for it is needed at once.
    let mut state = 0;
    stack[0] = line.symbol(tables::STEP_ROWS[0]);
    let outcome = loop {
        let mut step = tables::ACTIONS[state * tables::TERMINALS + lookahead];
        if step >= tables::ERROR {
            break if step == tables::ACCEPT { Ok(()) } else { Err(Stop::Wrong(line.at)) };
        }
        if step & WHAT != tables::REDUCE {
            top += 1;
            let symbol = stack.get_mut(top).ok_or(Full::Stack)?;
            *symbol = line.symbol(0);
            line.at += 1;
            lookahead = terminal(line.at);
            column = usize::from(tables::GOTO_COLUMNS[lookahead]);
            if step & WHAT == tables::GO {
                state = usize::from(step);
                symbol.steps = tables::STEP_ROWS[state];
                continue;
            }
        }
        loop {
            let production = &UNPACKED[usize::from(step & tables::NUMBER)];
            let base = top + 1 - usize::from(production.length);
            if production.length == 0 {
                *stack.get_mut(base).ok_or(Full::Stack)? = line.symbol(0);
            }
            let below = stack[base - 1];
            if production.effect != Effect::Nothing {
                line.perform(production, below, &stack[base..=top.max(base)])?;
            }
            step = tables::STEPS[usize::from(below.steps) + usize::from(production.rule)];
            if step & WHAT == tables::LOOK {
                step = tables::GOTOS[usize::from(step & tables::NUMBER) * tables::GOTO_WIDTH + column];
            }
            top = base;
            if step & WHAT != tables::REDUCE {
                break;
            }
        }
        if step >= tables::ERROR {
            break if step == tables::ACCEPT { Ok(()) } else { Err(Stop::Wrong(line.at)) };
        }
        state = usize::from(step);
        stack[top].steps = tables::STEP_ROWS[state];
    };
    rows.len = line.next;
    Ok(outcome)
}

impl<'a> Line<'a> {
    fn new(text: &'a [u8], tokens: &'a Tokens, first: usize, end: usize, rows: &'a mut Rows) -> Self {
        let columns = &mut rows.columns;
        let room = columns.kinds.len();
        Self {
            text,
            kinds: &mut columns.kinds[..room],
            fields: &mut columns.fields[..room],
            parents: &mut columns.parents[..room],
            starts: &mut columns.starts[..room],
            ends: &mut columns.ends[..room],
            aux: &mut columns.aux[..room],
            token_starts: &tokens.starts[..end],
            token_ends: &tokens.ends[..end],
            payloads: &tokens.payloads[..end],
            next: rows.len,
            at: first,
        }
    }

    /// The symbol that starts here.
    #[inline]
    fn symbol(&self, steps: u16) -> Symbol {
        Symbol { token: small(self.at), node: small(self.next), steps }
    }

    /// What a production does to the nodes.
    #[inline]
    fn perform(&mut self, production: &Production, below: Symbol, symbols: &[Symbol]) -> Result<(), Full> {
        match production.effect {
            Effect::Nothing => {}
            Effect::Leaf => {
                let aux = self.aux(production, symbols);
                self.push(production.kind, self.next, symbols[0].token, aux)?;
            }
            Effect::Node => {
                let aux = self.aux(production, symbols);
                let first = self.adopt(production, symbols);
                self.push(production.kind, first, symbols[0].token, aux)?;
            }
            Effect::Label => self.label(production, symbols),
            Effect::Special => self.special(production, below, symbols)?,
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, kind: Kind, first: usize, token: u32, aux: u32) -> Result<(), Full> {
        let row = self.next;
        if row >= self.kinds.len() {
            return Err(Full::Rows);
        }
        self.kinds[row] = kind;
        self.fields[row] = Field::Body;
        self.parents[row] = small(row - first) + 1;
        // An empty symbol behind the last token starts nowhere.
        self.starts[row] = self.token_starts.get(token as usize).copied().unwrap_or(0);
        self.ends[row] = self.token_ends[self.at - 1];
        self.aux[row] = aux;
        self.next = row + 1;
        Ok(())
    }

    /// Makes the roots of the symbols children of the next row; gives the first row of its subtree.
    #[inline]
    fn adopt(&mut self, production: &Production, symbols: &[Symbol]) -> usize {
        let mut next = self.next;
        for place in (usize::from(production.beside)..symbols.len()).rev() {
            let first = symbols[place].node as usize;
            if next <= first {
                continue;
            }
            let label = production.labels[place];
            let given = LABEL_FIELDS[usize::from(label)];
            while next > first {
                let root = next - 1;
                if label != 0 {
                    self.fields[root] = if self.kinds[root] as u8 == given.kind { given.matching } else { given.other };
                }
                next -= self.parents[root] as usize;
                self.parents[root] = small(self.next);
            }
        }
        next
    }

    /// Gives the roots of labelled symbols their fields; they remain roots. A list grows by one symbol at a time, so the
    /// roots it has already must not be walked again.
    fn label(&mut self, production: &Production, symbols: &[Symbol]) {
        let mut next = self.next;
        for (place, symbol) in symbols.iter().enumerate().rev() {
            let (label, first) = (production.labels[place], symbol.node as usize);
            let given = LABEL_FIELDS[usize::from(label)];
            while label != 0 && next > first {
                let root = next - 1;
                self.fields[root] = if self.kinds[root] as u8 == given.kind { given.matching } else { given.other };
                next -= self.parents[root] as usize;
            }
            next = next.min(first);
        }
    }

    #[inline]
    fn aux(&self, production: &Production, symbols: &[Symbol]) -> u32 {
        if production.aux == tables::AUX_CONSTANT {
            return production.plus;
        }
        let token = symbols[usize::from(production.aux_symbol)].token;
        let payload = self.payloads[token as usize];
        payload * u32::from(production.times_payload) + token * u32::from(production.times_token) + production.plus
    }

    /// Nodes whose `aux` is none of the usual ones.
    #[cold]
    fn special(&mut self, production: &Production, below: Symbol, symbols: &[Symbol]) -> Result<(), Full> {
        if production.aux == tables::AUX_TEXT && self.touches_text(below) {
            return Ok(());
        }
        let place = usize::from(production.aux_symbol);
        let token = symbols[place].token as usize;
        let aux = match production.aux {
            tables::AUX_SECOND => self.payloads[token + 1],
            tables::AUX_LEVEL => {
                let end = symbols.get(place + 1).map_or(self.at, |symbol| symbol.token as usize);
                (token..end).map(|token| self.token_ends[token] - self.token_starts[token]).sum()
            }
            tables::AUX_SIMPLE => self.simple(token, symbols[place + 1].node as usize - 1),
            tables::AUX_LETTER => self.letter(token),
            tables::AUX_SOURCE => below.token - 1,
            _ => small(token),
        };
        let first = self.adopt(production, symbols);
        self.push(production.kind, first, symbols[0].token, aux)
    }

    /// Whether the symbol before ends with text, which the text that follows belongs to.
    fn touches_text(&self, below: Symbol) -> bool {
        (below.node as usize) < self.next && self.kinds[self.next - 1] == Kind::Constant
    }

    /// 1 if a node is a name that starts with the symbol it was left by, so not in parentheses.
    fn simple(&self, token: usize, node: usize) -> u32 {
        u32::from(self.starts[node] == self.token_starts[token] && self.kinds[node] == Kind::Name)
    }

    /// The character of a token of one byte that touches the token before it, else 0.
    fn letter(&self, token: usize) -> u32 {
        let (start, end) = (self.token_starts[token] as usize, self.token_ends[token] as usize);
        match self.text.get(start..end) {
            Some(&[letter]) if self.token_ends[token - 1] as usize == start => u32::from(letter),
            _ => 0,
        }
    }
}

/// Rows and tokens are fewer than the bytes of a text, and those fit.
#[expect(clippy::cast_possible_truncation, reason = "the lexer takes at most 2^30 bytes")]
#[inline]
fn small(number: usize) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::lex;
    use crate::tokens::Terminal;

    /// The roots of a line whose tokens are those of a text with one of them replaced.
    fn roots(text: &str, at: usize, terminal: Terminal) -> Result<Vec<(Kind, Field)>, Stop> {
        let mut tokens = lex(text).tokens;
        tokens.kinds[at] = terminal;
        let mut rows = Rows::for_tokens(0);
        Driver::default().parse(text.as_bytes(), &tokens, (0, tokens.kinds.len()), &mut rows)?;
        let mut next = rows.len;
        let mut found = Vec::new();
        while next > 0 {
            found.push((rows.columns.kinds[next - 1], rows.columns.fields[next - 1]));
            next -= rows.columns.parents[next - 1] as usize;
        }
        Ok(found)
    }

    #[test]
    fn chunks_leave_roots_for_the_node_they_were_cut_from() {
        let items = roots("_ 1: 2, **a,", 0, Terminal::ChunkDict).unwrap();
        let expected = [(Kind::Name, Field::Unpacked), (Kind::Constant, Field::Values), (Kind::Constant, Field::Keys)];
        assert_eq!(items, expected);
        let elements = roots("_ a, *b", 0, Terminal::ChunkList).unwrap();
        assert_eq!(elements.iter().map(|root| root.0).collect::<Vec<_>>(), [Kind::Starred, Kind::Name]);
    }

    #[test]
    fn a_token_stands_for_the_chunks_that_were_cut_out() {
        assert_eq!(roots("f(_)", 2, Terminal::BigArgs), Ok(vec![(Kind::Expr, Field::Body)]));
        assert_eq!(roots("f(_ a)", 2, Terminal::BigArgs), Err(Stop::Wrong(3)));
    }

    #[test]
    fn the_wrong_token_is_found_before_it_is_taken() {
        assert_eq!(roots("a = b c", 0, Terminal::Name), Err(Stop::Wrong(3)));
        assert_eq!(roots("a +", 0, Terminal::Name), Err(Stop::Wrong(2)));
    }
}
