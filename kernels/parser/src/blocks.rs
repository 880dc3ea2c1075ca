//! Nests lines into compound statements by indentation: the body of a line, the statement of a clause, and the end of
//! compound statements.
//!
//! The roots of a line are its header, if it has one, and the statements after it; they get their parents here. A
//! compound statement ends with the last token of its last line, a semicolon included, as in CPython.

use std::ops::Range;

use crate::columns::{Columns, Field, Kind, NONE};
use crate::diagnostic::{Class, Diagnostic, Span};
use crate::tokens::{Line, Terminal, Tokens};

/// The stack of open blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    stack: Vec<Block>,
    /// A header without a body on its line: the next line must be indented.
    header: Option<PendingHeader>,
    /// The end of the previous line.
    end: u32,
    /// Rows of decorators before their function or class.
    decorators: Vec<u32>,
}

/// A block of lines with the same indentation.
#[derive(Clone, Copy, Debug)]
struct Block {
    column: u32,
    /// The row whose field the statements are in.
    owner: u32,
    field: Field,
    last: OpenStatement,
}

/// The last statement of a block, which later lines may continue.
#[derive(Clone, Copy, Debug)]
struct OpenStatement {
    /// Its row, or [`NONE`].
    head: u32,
    /// The row of its last clause; the rows from there through their parents to `head` end together.
    tail: u32,
    continuation: Continuation,
}

/// The clauses that may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Continuation {
    None,
    If,
    Loop,
    Try,
    Handlers { star: bool },
    TryElse,
}

const MISSING_HANDLER: &str = "expected 'except' or 'finally' block";

const NO_STATEMENT: OpenStatement = OpenStatement { head: NONE, tail: NONE, continuation: Continuation::None };

#[derive(Clone, Copy, Debug)]
struct PendingHeader {
    owner: u32,
    field: Field,
    /// The terminal it starts with, and the token.
    terminal: Terminal,
    token: u32,
}

/// A text and its tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokenized<'a> {
    pub(crate) text: &'a str,
    pub(crate) tokens: &'a Tokens,
}

type Result<T> = std::result::Result<T, Diagnostic>;

impl Default for Blocks {
    fn default() -> Self {
        let block = Block { column: 0, owner: NONE, field: Field::Body, last: NO_STATEMENT };
        Self { stack: vec![block], header: None, end: 0, decorators: Vec::new() }
    }
}

impl Blocks {
    /// Nests the rows of a line, after [`Self::enter`].
    pub(crate) fn line(
        &mut self,
        source: Tokenized<'_>,
        line: &Line,
        rows: Range<usize>,
        columns: &mut Columns,
    ) -> Result<()> {
        let terminal = source.tokens.kinds[line.first as usize];
        match terminal {
            Terminal::Elif | Terminal::Else | Terminal::Except | Terminal::Finally => {
                self.clause(source, line, terminal, rows, columns)?;
            }
            _ => self.statement(source, line, terminal, rows, columns)?,
        }
        self.end = source.tokens.ends[line.end as usize - 1];
        Ok(())
    }

    /// Closes all blocks after the last line.
    pub(crate) fn finish(&mut self, source: Tokenized<'_>, columns: &mut Columns) -> Result<()> {
        let after =
            Line { first: u32::try_from(source.tokens.kinds.len()).unwrap_or(NONE), end: 0, column: 0, alternate: 0 };
        if self.header.is_some() {
            return Err(self.missing_block(source, &after));
        }
        self.dedent(source, &after, columns)?;
        self.close_statement(source, &after, columns)?;
        if self.decorators.is_empty() { Ok(()) } else { Err(invalid_syntax(source, after.first)) }
    }

    /// Indents or dedents to a line. Its errors precede those inside the line.
    pub(crate) fn enter(&mut self, source: Tokenized<'_>, line: &Line, columns: &mut Columns) -> Result<()> {
        let column = self.innermost().column;
        match self.header.take() {
            Some(header) if line.column > column => {
                let PendingHeader { owner, field, .. } = header;
                self.stack.push(Block { column: line.column, owner, field, last: NO_STATEMENT });
                Ok(())
            }
            Some(header) => {
                self.header = Some(header);
                Err(self.missing_block(source, line))
            }
            None if line.column > column => Err(unexpected_indent(source.tokens.starts[line.first as usize])),
            None if line.column < column && !self.decorators.is_empty() => {
                Err(indentation_error(source, line.first, "unexpected unindent"))
            }
            None => self.dedent(source, line, columns),
        }
    }

    /// The error of a misplaced line, which precedes errors inside it: it ends a `try` without handlers, or is a clause
    /// without a statement.
    pub(crate) fn misplaced(&self, source: Tokenized<'_>, line: &Line) -> Option<Diagnostic> {
        let terminal = source.tokens.kinds[line.first as usize];
        let continuation = self.innermost().last.continuation;
        let continues = match terminal {
            Terminal::Elif => continuation == Continuation::If,
            Terminal::Else => {
                matches!(continuation, Continuation::If | Continuation::Loop | Continuation::Handlers { .. })
            }
            Terminal::Except => matches!(continuation, Continuation::Try | Continuation::Handlers { .. }),
            Terminal::Finally => {
                matches!(continuation, Continuation::Try | Continuation::Handlers { .. } | Continuation::TryElse)
            }
            _ => true,
        };
        if continuation == Continuation::Try && !matches!(terminal, Terminal::Except | Terminal::Finally) {
            return Some(error_at(source, line.first, MISSING_HANDLER));
        }
        (!continues || is_clause(terminal) && !self.decorators.is_empty()).then(|| invalid_syntax(source, line.first))
    }

    /// Returns true if a line at this column is indented without a header before it.
    pub(crate) fn is_unexpected_indent(&self, column: u32) -> bool {
        self.header.is_none() && column > self.innermost().column
    }

    fn dedent(&mut self, source: Tokenized<'_>, line: &Line, columns: &mut Columns) -> Result<()> {
        while self.innermost().column > line.column {
            self.close_statement(source, line, columns)?;
            self.stack.pop();
        }
        Ok(())
    }

    fn innermost(&self) -> Block {
        *self.stack.last().expect("the module's block is never popped")
    }

    fn statement_mut(&mut self) -> &mut OpenStatement {
        &mut self.stack.last_mut().expect("the module's block is never popped").last
    }

    /// Ends the last statement of the innermost block; `line` is the first line after it.
    fn close_statement(&mut self, source: Tokenized<'_>, line: &Line, columns: &mut Columns) -> Result<()> {
        let OpenStatement { head, tail, continuation } = self.innermost().last;
        if continuation == Continuation::Try {
            return Err(error_at(source, line.first, MISSING_HANDLER));
        }
        let mut row = tail;
        while row != NONE {
            columns.ends[row as usize] = self.end;
            row = if row == head { NONE } else { columns.parents[row as usize] };
        }
        *self.statement_mut() = NO_STATEMENT;
        Ok(())
    }

    /// A line that starts a statement.
    fn statement(
        &mut self,
        source: Tokenized<'_>,
        line: &Line,
        terminal: Terminal,
        rows: Range<usize>,
        columns: &mut Columns,
    ) -> Result<()> {
        self.close_statement(source, line, columns)?;
        let block = self.innermost();
        let in_match = block.owner != NONE && columns.kinds[block.owner as usize] == Kind::Match;
        if in_match != (terminal == Terminal::Case) {
            return Err(invalid_syntax(source, line.first));
        }
        if terminal == Terminal::At {
            self.decorators.push(to_u32(rows.end - 1));
            return Ok(());
        }
        if !starts_compound(terminal) {
            self.reject_decorators(source, line)?;
            adopt(columns, rows, block.owner, block.field);
            return Ok(());
        }
        let head = header_row(columns, &rows);
        self.decorate(source, line, head, columns)?;
        columns.parents[head as usize] = block.owner;
        columns.fields[head as usize] = block.field;
        let (field, continuation) = match columns.kinds[head as usize] {
            Kind::If => (Field::Body, Continuation::If),
            Kind::While | Kind::For | Kind::AsyncFor => (Field::Body, Continuation::Loop),
            Kind::Try => (Field::Body, Continuation::Try),
            Kind::Match => (Field::Cases, Continuation::None),
            _ => (Field::Body, Continuation::None),
        };
        *self.statement_mut() = OpenStatement { head, tail: head, continuation };
        self.attach_body(line, terminal, head as usize + 1..rows.end, (head, field), columns);
        Ok(())
    }

    /// Attaches the statements after a header on its line, or makes the header wait for its block.
    fn attach_body(
        &mut self,
        line: &Line,
        terminal: Terminal,
        rows: Range<usize>,
        (owner, field): (u32, Field),
        columns: &mut Columns,
    ) {
        if rows.is_empty() {
            self.header = Some(PendingHeader { owner, field, terminal, token: line.first });
        } else {
            adopt(columns, rows, owner, field);
        }
    }

    /// Attaches the decorators to a function or class; nothing else may follow them.
    fn decorate(&mut self, source: Tokenized<'_>, line: &Line, head: u32, columns: &mut Columns) -> Result<()> {
        if !matches!(columns.kinds[head as usize], Kind::FunctionDef | Kind::AsyncFunctionDef | Kind::ClassDef) {
            return self.reject_decorators(source, line);
        }
        for row in self.decorators.drain(..) {
            columns.parents[row as usize] = head;
        }
        Ok(())
    }

    fn reject_decorators(&self, source: Tokenized<'_>, line: &Line) -> Result<()> {
        if self.decorators.is_empty() { Ok(()) } else { Err(invalid_syntax(source, line.first)) }
    }

    /// A line that continues the statement before it.
    fn clause(
        &mut self,
        source: Tokenized<'_>,
        line: &Line,
        terminal: Terminal,
        rows: Range<usize>,
        columns: &mut Columns,
    ) -> Result<()> {
        self.reject_decorators(source, line)?;
        let OpenStatement { head, tail, continuation } = self.innermost().last;
        if continuation == Continuation::Try && !matches!(terminal, Terminal::Except | Terminal::Finally) {
            return Err(error_at(source, line.first, MISSING_HANDLER));
        }
        let star = source.tokens.kinds.get(line.first as usize + 1) == Some(&Terminal::Star);
        let next = match (terminal, continuation) {
            (Terminal::Elif, Continuation::If) => Continuation::If,
            (Terminal::Else, Continuation::If | Continuation::Loop)
            | (Terminal::Finally, Continuation::Try | Continuation::Handlers { .. } | Continuation::TryElse) => {
                Continuation::None
            }
            (Terminal::Else, Continuation::Handlers { .. }) => Continuation::TryElse,
            (Terminal::Except, Continuation::Try) => Continuation::Handlers { star },
            (Terminal::Except, Continuation::Handlers { star: before }) if before == star => continuation,
            (Terminal::Except, Continuation::Handlers { .. }) => {
                let message = "cannot have both 'except' and 'except*' on the same 'try'";
                return Err(error_at(source, line.first, message));
            }
            _ => return Err(invalid_syntax(source, line.first)),
        };
        if columns.kinds[tail as usize] == Kind::ExceptHandler {
            columns.ends[tail as usize] = self.end;
        }
        let (row, field) = match terminal {
            Terminal::Elif => (attach(header_row(columns, &rows), tail, Field::Orelse, columns), Field::Body),
            Terminal::Except => (attach(header_row(columns, &rows), head, Field::Handlers, columns), Field::Body),
            Terminal::Else if continuation == Continuation::If => (tail, Field::Orelse),
            Terminal::Else => (head, Field::Orelse),
            _ => (head, Field::Finalbody),
        };
        if terminal == Terminal::Except && star {
            columns.kinds[head as usize] = Kind::TryStar;
        }
        *self.statement_mut() = OpenStatement { head, tail: row, continuation: next };
        let after = if matches!(terminal, Terminal::Elif | Terminal::Except) { row as usize + 1 } else { rows.start };
        self.attach_body(line, terminal, after..rows.end, (row, field), columns);
        Ok(())
    }

    fn missing_block(&self, source: Tokenized<'_>, line: &Line) -> Diagnostic {
        let (what, number) = self.header.map_or(("a statement", 0), |header| {
            let start = source.tokens.starts[header.token as usize] as usize;
            (header_name(source, header), line_number(source.text, start))
        });
        indentation_error(source, line.first, format!("expected an indented block after {what} on line {number}"))
    }
}

/// The line of a byte, counted from 1.
fn line_number(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset];
    let pairs = before.windows(2).filter(|pair| pair == b"\r\n").count();
    1 + memchr::memchr2_iter(b'\n', b'\r', before).count() - pairs
}

/// CPython's name of a header.
fn header_name(source: Tokenized<'_>, header: PendingHeader) -> &'static str {
    let token = header.token as usize;
    let terminal = if header.terminal == Terminal::Async { source.tokens.kinds[token + 1] } else { header.terminal };
    match terminal {
        Terminal::If => "'if' statement",
        Terminal::Elif => "'elif' statement",
        Terminal::Else => "'else' statement",
        Terminal::While => "'while' statement",
        Terminal::For => "'for' statement",
        Terminal::With => "'with' statement",
        Terminal::Def => "function definition",
        Terminal::Class => "class definition",
        Terminal::Try => "'try' statement",
        Terminal::Except if source.tokens.kinds.get(token + 1) == Some(&Terminal::Star) => "'except*' statement",
        Terminal::Except => "'except' statement",
        Terminal::Finally => "'finally' statement",
        Terminal::Match => "'match' statement",
        Terminal::Case => "'case' statement",
        _ => "a statement",
    }
}

fn is_clause(terminal: Terminal) -> bool {
    matches!(terminal, Terminal::Elif | Terminal::Else | Terminal::Except | Terminal::Finally)
}

fn starts_compound(terminal: Terminal) -> bool {
    matches!(
        terminal,
        Terminal::If
            | Terminal::While
            | Terminal::For
            | Terminal::Async
            | Terminal::With
            | Terminal::Def
            | Terminal::Class
            | Terminal::Try
            | Terminal::Match
            | Terminal::Case
    )
}

/// The first root of a line; roots are found backwards.
fn header_row(columns: &Columns, rows: &Range<usize>) -> u32 {
    let mut next = rows.end;
    let mut row = next;
    while next > rows.start {
        row = next - 1;
        next -= columns.parents[row] as usize;
    }
    to_u32(row)
}

/// Makes the roots among `rows` children of `owner`.
fn adopt(columns: &mut Columns, rows: Range<usize>, owner: u32, field: Field) {
    let mut next = rows.end;
    while next > rows.start {
        let root = next - 1;
        next -= columns.parents[root] as usize;
        columns.parents[root] = owner;
        columns.fields[root] = field;
    }
}

/// Makes a clause's row a child of `parent`.
fn attach(row: u32, parent: u32, field: Field, columns: &mut Columns) -> u32 {
    columns.parents[row as usize] = parent;
    columns.fields[row as usize] = field;
    row
}

fn to_u32(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(NONE)
}

fn invalid_syntax(source: Tokenized<'_>, token: u32) -> Diagnostic {
    error_at(source, token, "invalid syntax")
}

/// A `SyntaxError` at a token, or at the end of the last line for the number after the last token.
pub(crate) fn error_at(
    source: Tokenized<'_>,
    token: u32,
    message: impl Into<std::borrow::Cow<'static, str>>,
) -> Diagnostic {
    let starts = &source.tokens.starts;
    let ends = &source.tokens.ends;
    let after = to_u32(source.text.strip_suffix('\n').unwrap_or(source.text).len());
    let start = starts.get(token as usize).copied().unwrap_or(after);
    let end = ends.get(token as usize).copied().unwrap_or(after);
    Diagnostic::syntax(start, end, message)
}

/// An unexpected indent before the token at `first`: CPython reports the last byte before it.
pub(crate) fn unexpected_indent(first: u32) -> Diagnostic {
    let index = first.saturating_sub(1);
    let error = Diagnostic::syntax(index, index, "unexpected indent").with_span(Span::Start(-1));
    Diagnostic { class: Class::Indentation, ..error }
}

fn indentation_error(
    source: Tokenized<'_>,
    token: u32,
    message: impl Into<std::borrow::Cow<'static, str>>,
) -> Diagnostic {
    Diagnostic { class: Class::Indentation, ..error_at(source, token, message) }
}
