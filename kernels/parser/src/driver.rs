//! The LR(1) driver: parses one logical line by the generated tables.
//!
//! Reductions emit nodes in postorder, each after the nodes of its symbols. Semantic actions are data in the tables, so
//! a GPU runs the same loop.
//!
//! Until the parent of a node is known, its slot in `parents` holds the size of its subtree. The roots of a symbol on
//! the stack are therefore found backwards: the last node is a root, and the root before it ends where the last one's
//! subtree begins.

use crate::columns::{Field, Kind};
use crate::nodes::Nodes;
use crate::tables::{self, LABEL_FIELDS, PRODUCTION_TABLE, Production, SemanticAction};
use crate::tokens::Tokens;

/// The deepest stack. CPython's limit is lower and depends on the grammar rules.
const MAX_DEPTH: usize = 60_000;

/// A syntax error at a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParseError {
    /// An unexpected token; the number after the last token is the end of the line.
    Unexpected(usize),
    /// The stack is full.
    TooDeep(usize),
}

/// A buffer that must grow before the line is parsed again.
enum OutOfSpace {
    Nodes,
    Stack,
}

/// A symbol on the stack.
#[derive(Clone, Copy, Debug, Default)]
struct Symbol {
    /// Its first token; of an empty symbol the next token.
    token: u32,
    /// Its first node; of a symbol without nodes the next node.
    node: u32,
    /// The offset in `GOTOS` of the row of the state after it.
    goto_row: u16,
}

/// The driver and its stack, reused from line to line.
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
    /// Parses a range of tokens and appends their nodes.
    ///
    /// Roots keep the size of their subtree in `parents`. After an error there may be nodes of the tokens before it.
    pub(crate) fn parse(
        &mut self,
        text: &[u8],
        tokens: &Tokens,
        range: (usize, usize),
        rows: &mut Nodes,
    ) -> Result<(), ParseError> {
        let before = rows.len;
        loop {
            rows.len = before;
            match run(&mut self.stack, text, tokens, range, rows) {
                Ok(outcome) => return outcome,
                Err(OutOfSpace::Nodes) => rows.grow(),
                Err(OutOfSpace::Stack) if self.stack.len() < MAX_DEPTH => {
                    self.stack.resize(self.stack.len() * 2, Symbol::default());
                }
                Err(OutOfSpace::Stack) => return Err(ParseError::TooDeep(range.0)),
            }
        }
    }
}

/// Node columns and token columns as slices of equal lengths, which the loop keeps in registers.
struct LineParser<'a> {
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
const ENTRY_KIND: u16 = !tables::INDEX_MASK;
const END: usize = tables::TERMINALS - 1;

fn run(
    stack: &mut [Symbol],
    text: &[u8],
    tokens: &Tokens,
    (first, end): (usize, usize),
    rows: &mut Nodes,
) -> Result<Result<(), ParseError>, OutOfSpace> {
    let kinds = &tokens.kinds[..end];
    let terminal = |index: usize| kinds.get(index).map_or(END, |&kind| kind as usize);
    let mut line = LineParser::new(text, tokens, first, end, rows);
    let mut top = 0;
    let mut lookahead = terminal(first);
    let mut column = usize::from(tables::LOOKAHEAD_COLUMNS[lookahead]);
    // The current state is a local and not on the stack, since the next action needs it.
    let mut state = 0;
    stack[0] = line.symbol(tables::GOTO_ROWS[0]);
    let outcome = loop {
        let mut entry = tables::ACTIONS[state * tables::TERMINALS + lookahead];
        if entry >= tables::ERROR {
            break if entry == tables::ACCEPT { Ok(()) } else { Err(ParseError::Unexpected(line.at)) };
        }
        if entry & ENTRY_KIND != tables::REDUCE {
            top += 1;
            let symbol = stack.get_mut(top).ok_or(OutOfSpace::Stack)?;
            *symbol = line.symbol(0);
            line.at += 1;
            lookahead = terminal(line.at);
            column = usize::from(tables::LOOKAHEAD_COLUMNS[lookahead]);
            if entry & ENTRY_KIND == tables::GOTO {
                state = usize::from(entry);
                symbol.goto_row = tables::GOTO_ROWS[state];
                continue;
            }
        }
        loop {
            let production = &PRODUCTION_TABLE[usize::from(entry & tables::INDEX_MASK)];
            let base = top + 1 - usize::from(production.length);
            if production.length == 0 {
                *stack.get_mut(base).ok_or(OutOfSpace::Stack)? = line.symbol(0);
            }
            let below = stack[base - 1];
            if production.action != SemanticAction::None {
                line.run_action(production, below, &stack[base..=top.max(base)])?;
            }
            entry = tables::GOTOS[usize::from(below.goto_row) + usize::from(production.nonterminal)];
            if entry & ENTRY_KIND == tables::LOOKAHEAD {
                entry =
                    tables::LOOKAHEAD_GOTOS[usize::from(entry & tables::INDEX_MASK) * tables::LOOKAHEAD_WIDTH + column];
            }
            top = base;
            if entry & ENTRY_KIND != tables::REDUCE {
                break;
            }
        }
        if entry >= tables::ERROR {
            break if entry == tables::ACCEPT { Ok(()) } else { Err(ParseError::Unexpected(line.at)) };
        }
        state = usize::from(entry);
        stack[top].goto_row = tables::GOTO_ROWS[state];
    };
    rows.len = line.next;
    Ok(outcome)
}

impl<'a> LineParser<'a> {
    fn new(text: &'a [u8], tokens: &'a Tokens, first: usize, end: usize, rows: &'a mut Nodes) -> Self {
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

    /// A symbol that starts at the next token and node.
    #[inline]
    fn symbol(&self, goto_row: u16) -> Symbol {
        Symbol { token: to_u32(self.at), node: to_u32(self.next), goto_row }
    }

    /// Runs the semantic action of a production.
    #[inline]
    fn run_action(&mut self, production: &Production, below: Symbol, symbols: &[Symbol]) -> Result<(), OutOfSpace> {
        match production.action {
            SemanticAction::None => {}
            SemanticAction::Leaf => {
                let aux = self.aux(production, symbols);
                self.push(production.kind, self.next, symbols[0].token, aux)?;
            }
            SemanticAction::Node => {
                let aux = self.aux(production, symbols);
                let first = self.attach_children(production, symbols);
                self.push(production.kind, first, symbols[0].token, aux)?;
            }
            SemanticAction::Label => self.label(production, symbols),
            SemanticAction::Special => self.special(production, below, symbols)?,
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, kind: Kind, first: usize, token: u32, aux: u32) -> Result<(), OutOfSpace> {
        let row = self.next;
        if row >= self.kinds.len() {
            return Err(OutOfSpace::Nodes);
        }
        self.kinds[row] = kind;
        self.fields[row] = Field::Body;
        self.parents[row] = to_u32(row - first) + 1;
        // An empty symbol after the last token has no start.
        self.starts[row] = self.token_starts.get(token as usize).copied().unwrap_or(0);
        self.ends[row] = self.token_ends[self.at - 1];
        self.aux[row] = aux;
        self.next = row + 1;
        Ok(())
    }

    /// Makes the roots of the symbols children of the next node; returns the first node of its subtree.
    #[inline]
    fn attach_children(&mut self, production: &Production, symbols: &[Symbol]) -> usize {
        let mut next = self.next;
        for place in (usize::from(production.skipped)..symbols.len()).rev() {
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
                self.parents[root] = to_u32(self.next);
            }
        }
        next
    }

    /// Sets the fields of the roots of labelled symbols, which remain roots. The roots of unlabelled symbols are
    /// skipped: a list grows by one symbol at a time, and walking it each time would be quadratic.
    fn label(&mut self, production: &Production, symbols: &[Symbol]) {
        let mut next = self.next;
        for (place, symbol) in symbols.iter().enumerate().rev() {
            let label = production.labels[place];
            let first = symbol.node as usize;
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

    /// Emits a node with a special `aux`.
    #[cold]
    fn special(&mut self, production: &Production, below: Symbol, symbols: &[Symbol]) -> Result<(), OutOfSpace> {
        if production.aux == tables::AUX_TEXT && self.follows_text(below) {
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
            _ => to_u32(token),
        };
        let first = self.attach_children(production, symbols);
        self.push(production.kind, first, symbols[0].token, aux)
    }

    /// Returns true if the symbol below ends with literal text, which adjacent text extends.
    fn follows_text(&self, below: Symbol) -> bool {
        (below.node as usize) < self.next && self.kinds[self.next - 1] == Kind::Constant
    }

    /// `AnnAssign.simple`: 1 if the target is a name without parentheses.
    fn simple(&self, token: usize, node: usize) -> u32 {
        u32::from(self.starts[node] == self.token_starts[token] && self.kinds[node] == Kind::Name)
    }

    /// The character of a one-byte token directly after the previous token, else 0.
    fn letter(&self, token: usize) -> u32 {
        let start = self.token_starts[token] as usize;
        let end = self.token_ends[token] as usize;
        match self.text.get(start..end) {
            Some(&[letter]) if self.token_ends[token - 1] as usize == start => u32::from(letter),
            _ => 0,
        }
    }
}

/// There are fewer nodes and tokens than bytes of text.
#[expect(clippy::cast_possible_truncation, reason = "the lexer takes at most 2^30 bytes")]
#[inline]
fn to_u32(number: usize) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::lex;
    use crate::tokens::Terminal;

    /// The roots of a line, with one token of the text replaced.
    fn roots(text: &str, index: usize, terminal: Terminal) -> Result<Vec<(Kind, Field)>, ParseError> {
        let mut tokens = lex(text).tokens;
        tokens.kinds[index] = terminal;
        let mut rows = Nodes::with_capacity_for(0);
        Driver::default().parse(text.as_bytes(), &tokens, (0, tokens.kinds.len()), &mut rows)?;
        let mut next = rows.len;
        let mut roots = Vec::new();
        while next > 0 {
            roots.push((rows.columns.kinds[next - 1], rows.columns.fields[next - 1]));
            next -= rows.columns.parents[next - 1] as usize;
        }
        Ok(roots)
    }

    #[test]
    fn chunks_leave_roots_for_the_node_they_were_split_from() {
        let items = roots("_ 1: 2, **a,", 0, Terminal::ChunkDict).unwrap();
        let expected = [(Kind::Name, Field::Unpacked), (Kind::Constant, Field::Values), (Kind::Constant, Field::Keys)];
        assert_eq!(items, expected);
        let elements = roots("_ a, *b", 0, Terminal::ChunkList).unwrap();
        assert_eq!(elements.iter().map(|root| root.0).collect::<Vec<_>>(), [Kind::Starred, Kind::Name]);
    }

    #[test]
    fn a_placeholder_stands_for_the_chunks_that_were_split_off() {
        assert_eq!(roots("f(_)", 2, Terminal::BigArgs), Ok(vec![(Kind::Expr, Field::Body)]));
        assert_eq!(roots("f(_ a)", 2, Terminal::BigArgs), Err(ParseError::Unexpected(3)));
    }

    #[test]
    fn an_unexpected_token_is_reported_before_it_is_shifted() {
        assert_eq!(roots("a = b c", 0, Terminal::Name), Err(ParseError::Unexpected(3)));
        assert_eq!(roots("a +", 0, Terminal::Name), Err(ParseError::Unexpected(2)));
    }
}
