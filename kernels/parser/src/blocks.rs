//! Lines to nested statements: whose body a line is part of, which statement a clause belongs to, and where compound
//! statements end.
//!
//! A line's roots are its header, if it has one, and the statements behind it. They get their parents here. A compound
//! statement ends with the last token of the last line in it, a semicolon included, as in CPython.

use std::ops::Range;

use crate::columns::{Columns, Field, Kind, NONE};
use crate::diagnostic::{Class, Diagnostic, Span};
use crate::tokens::{Line, Terminal, Tokens};

/// The statements that are open at the end of a line.
#[derive(Debug)]
pub(crate) struct Blocks {
    levels: Vec<Level>,
    /// A header that nothing followed on its line: the next line must be deeper.
    header: Option<Header>,
    /// Where the last line ended.
    end: u32,
    /// Rows of the decorators whose function or class is still to come, and where the last one's line starts.
    decorators: Vec<u32>,
}

/// Lines of one block.
#[derive(Clone, Copy, Debug)]
struct Level {
    column: u32,
    /// The row whose field the statements are in.
    owner: u32,
    field: Field,
    last: Last,
}

/// The last statement of a level, as long as more lines may become part of it.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// Its row, or [`NONE`].
    head: u32,
    /// The row of its last clause; the rows from there up to `head` end together.
    tail: u32,
    state: State,
}

/// Which clauses may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    If,
    Loop,
    Try,
    Handlers { star: bool },
    TryElse,
}

const MISSING_HANDLER: &str = "expected 'except' or 'finally' block";

const CLOSED: Last = Last { head: NONE, tail: NONE, state: State::Closed };

#[derive(Clone, Copy, Debug)]
struct Header {
    owner: u32,
    field: Field,
    /// The terminal it starts with, and the token.
    terminal: Terminal,
    token: u32,
}

/// What is being parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    pub(crate) tokens: &'a Tokens,
}

type Result<T> = std::result::Result<T, Diagnostic>;

impl Default for Blocks {
    fn default() -> Self {
        let level = Level { column: 0, owner: NONE, field: Field::Body, last: CLOSED };
        Self { levels: vec![level], header: None, end: 0, decorators: Vec::new() }
    }
}

impl Blocks {
    /// Nests a line that was entered, with its rows.
    pub(crate) fn line(
        &mut self,
        source: Source<'_>,
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

    /// Closes what is open behind the last line.
    pub(crate) fn finish(&mut self, source: Source<'_>, columns: &mut Columns) -> Result<()> {
        let behind =
            Line { first: u32::try_from(source.tokens.kinds.len()).unwrap_or(NONE), end: 0, column: 0, alternate: 0 };
        if self.header.is_some() {
            return Err(self.missing_block(source, &behind));
        }
        self.leave(source, &behind, columns)?;
        self.close(source, &behind, columns)?;
        if self.decorators.is_empty() { Ok(()) } else { Err(wrong(source, behind.first)) }
    }

    /// Brings the levels to that of a line. What is wrong with them comes before what is wrong inside the line.
    pub(crate) fn enter(&mut self, source: Source<'_>, line: &Line, columns: &mut Columns) -> Result<()> {
        let column = self.level().column;
        match self.header.take() {
            Some(header) if line.column > column => {
                let Header { owner, field, .. } = header;
                self.levels.push(Level { column: line.column, owner, field, last: CLOSED });
                Ok(())
            }
            Some(header) => {
                self.header = Some(header);
                Err(self.missing_block(source, line))
            }
            None if line.column > column => Err(unexpected(source.tokens.starts[line.first as usize])),
            None if line.column < column && !self.decorators.is_empty() => {
                Err(indentation(source, line.first, "unexpected unindent"))
            }
            None => self.leave(source, line, columns),
        }
    }

    /// What is wrong with where a line stands, whatever is wrong inside it: a `try` that it ends has no handlers, or there
    /// is no statement that it continues.
    pub(crate) fn before(&self, source: Source<'_>, line: &Line) -> Option<Diagnostic> {
        let terminal = source.tokens.kinds[line.first as usize];
        let state = self.level().last.state;
        let continues = match terminal {
            Terminal::Elif => state == State::If,
            Terminal::Else => matches!(state, State::If | State::Loop | State::Handlers { .. }),
            Terminal::Except => matches!(state, State::Try | State::Handlers { .. }),
            Terminal::Finally => matches!(state, State::Try | State::Handlers { .. } | State::TryElse),
            _ => true,
        };
        if state == State::Try && !matches!(terminal, Terminal::Except | Terminal::Finally) {
            return Some(at(source, line.first, MISSING_HANDLER));
        }
        (!continues || terminal_is_clause(terminal) && !self.decorators.is_empty()).then(|| wrong(source, line.first))
    }

    /// Whether a line of so many columns is deeper than it may be.
    pub(crate) fn refuses(&self, column: u32) -> bool {
        self.header.is_none() && column > self.level().column
    }

    fn leave(&mut self, source: Source<'_>, line: &Line, columns: &mut Columns) -> Result<()> {
        while self.level().column > line.column {
            self.close(source, line, columns)?;
            self.levels.pop();
        }
        Ok(())
    }

    fn level(&self) -> Level {
        *self.levels.last().expect("the module's level stays")
    }

    fn last_mut(&mut self) -> &mut Last {
        &mut self.levels.last_mut().expect("the module's level stays").last
    }

    /// Ends the last statement of the innermost level; `line` is the one that is not part of it any more.
    fn close(&mut self, source: Source<'_>, line: &Line, columns: &mut Columns) -> Result<()> {
        let Last { head, tail, state } = self.level().last;
        if state == State::Try {
            return Err(at(source, line.first, MISSING_HANDLER));
        }
        let mut row = tail;
        while row != NONE {
            columns.ends[row as usize] = self.end;
            row = if row == head { NONE } else { columns.parents[row as usize] };
        }
        *self.last_mut() = CLOSED;
        Ok(())
    }

    /// A line that starts a statement.
    fn statement(
        &mut self,
        source: Source<'_>,
        line: &Line,
        terminal: Terminal,
        rows: Range<usize>,
        columns: &mut Columns,
    ) -> Result<()> {
        self.close(source, line, columns)?;
        let level = self.level();
        let in_match = level.owner != NONE && columns.kinds[level.owner as usize] == Kind::Match;
        if in_match != (terminal == Terminal::Case) {
            return Err(wrong(source, line.first));
        }
        if terminal == Terminal::At {
            self.decorators.push(small(rows.end - 1));
            return Ok(());
        }
        if !starts_header(terminal) {
            self.refuse_decorators(source, line)?;
            adopt(columns, rows, level.owner, level.field);
            return Ok(());
        }
        let head = header_row(columns, &rows);
        self.decorate(source, line, head, columns)?;
        columns.parents[head as usize] = level.owner;
        columns.fields[head as usize] = level.field;
        let (field, state) = match columns.kinds[head as usize] {
            Kind::If => (Field::Body, State::If),
            Kind::While | Kind::For | Kind::AsyncFor => (Field::Body, State::Loop),
            Kind::Try => (Field::Body, State::Try),
            Kind::Match => (Field::Cases, State::Closed),
            _ => (Field::Body, State::Closed),
        };
        *self.last_mut() = Last { head, tail: head, state };
        self.body(line, terminal, head as usize + 1..rows.end, (head, field), columns);
        Ok(())
    }

    /// Gives the statements behind a header to it, or remembers that they are to come.
    fn body(
        &mut self,
        line: &Line,
        terminal: Terminal,
        rows: Range<usize>,
        (owner, field): (u32, Field),
        columns: &mut Columns,
    ) {
        if rows.is_empty() {
            self.header = Some(Header { owner, field, terminal, token: line.first });
        } else {
            adopt(columns, rows, owner, field);
        }
    }

    /// Gives the decorators to a function or class; nothing else may follow them.
    fn decorate(&mut self, source: Source<'_>, line: &Line, head: u32, columns: &mut Columns) -> Result<()> {
        if !matches!(columns.kinds[head as usize], Kind::FunctionDef | Kind::AsyncFunctionDef | Kind::ClassDef) {
            return self.refuse_decorators(source, line);
        }
        for row in self.decorators.drain(..) {
            columns.parents[row as usize] = head;
        }
        Ok(())
    }

    fn refuse_decorators(&self, source: Source<'_>, line: &Line) -> Result<()> {
        if self.decorators.is_empty() { Ok(()) } else { Err(wrong(source, line.first)) }
    }

    /// A line that continues the statement before it.
    fn clause(
        &mut self,
        source: Source<'_>,
        line: &Line,
        terminal: Terminal,
        rows: Range<usize>,
        columns: &mut Columns,
    ) -> Result<()> {
        self.refuse_decorators(source, line)?;
        let Last { head, tail, state } = self.level().last;
        if state == State::Try && !matches!(terminal, Terminal::Except | Terminal::Finally) {
            return Err(at(source, line.first, MISSING_HANDLER));
        }
        let star = source.tokens.kinds.get(line.first as usize + 1) == Some(&Terminal::Star);
        let next = match (terminal, state) {
            (Terminal::Elif, State::If) => State::If,
            (Terminal::Else, State::If | State::Loop)
            | (Terminal::Finally, State::Try | State::Handlers { .. } | State::TryElse) => State::Closed,
            (Terminal::Else, State::Handlers { .. }) => State::TryElse,
            (Terminal::Except, State::Try) => State::Handlers { star },
            (Terminal::Except, State::Handlers { star: before }) if before == star => state,
            (Terminal::Except, State::Handlers { .. }) => {
                let message = "cannot have both 'except' and 'except*' on the same 'try'";
                return Err(at(source, line.first, message));
            }
            _ => return Err(wrong(source, line.first)),
        };
        if columns.kinds[tail as usize] == Kind::ExceptHandler {
            columns.ends[tail as usize] = self.end;
        }
        let (row, field) = match terminal {
            Terminal::Elif => (attach(header_row(columns, &rows), tail, Field::Orelse, columns), Field::Body),
            Terminal::Except => (attach(header_row(columns, &rows), head, Field::Handlers, columns), Field::Body),
            Terminal::Else if state == State::If => (tail, Field::Orelse),
            Terminal::Else => (head, Field::Orelse),
            _ => (head, Field::Finalbody),
        };
        if terminal == Terminal::Except && star {
            columns.kinds[head as usize] = Kind::TryStar;
        }
        *self.last_mut() = Last { head, tail: row, state: next };
        let behind = if matches!(terminal, Terminal::Elif | Terminal::Except) { row as usize + 1 } else { rows.start };
        self.body(line, terminal, behind..rows.end, (row, field), columns);
        Ok(())
    }

    fn missing_block(&self, source: Source<'_>, line: &Line) -> Diagnostic {
        let (what, number) = self.header.map_or(("a statement", 0), |header| {
            let start = source.tokens.starts[header.token as usize] as usize;
            (introduced(source, header), line_number(source.text, start))
        });
        indentation(source, line.first, format!("expected an indented block after {what} on line {number}"))
    }
}

/// The number of the line that a byte is in, counted from 1.
fn line_number(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at];
    let pairs = before.windows(2).filter(|pair| pair == b"\r\n").count();
    1 + memchr::memchr2_iter(b'\n', b'\r', before).count() - pairs
}

/// What CPython calls a header.
fn introduced(source: Source<'_>, header: Header) -> &'static str {
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

fn terminal_is_clause(terminal: Terminal) -> bool {
    matches!(terminal, Terminal::Elif | Terminal::Else | Terminal::Except | Terminal::Finally)
}

fn starts_header(terminal: Terminal) -> bool {
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

/// The first root of a line: the last one to be found backwards.
fn header_row(columns: &Columns, rows: &Range<usize>) -> u32 {
    let mut next = rows.end;
    let mut row = next;
    while next > rows.start {
        row = next - 1;
        next -= columns.parents[row] as usize;
    }
    small(row)
}

/// Makes the roots among some rows children of another row.
fn adopt(columns: &mut Columns, rows: Range<usize>, owner: u32, field: Field) {
    let mut next = rows.end;
    while next > rows.start {
        let root = next - 1;
        next -= columns.parents[root] as usize;
        columns.parents[root] = owner;
        columns.fields[root] = field;
    }
}

/// Puts a clause's row into a field of another row.
fn attach(row: u32, parent: u32, field: Field, columns: &mut Columns) -> u32 {
    columns.parents[row as usize] = parent;
    columns.fields[row as usize] = field;
    row
}

fn small(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(NONE)
}

fn wrong(source: Source<'_>, token: u32) -> Diagnostic {
    at(source, token, "invalid syntax")
}

/// A `SyntaxError` at a token; behind the last one, at the end of the last line.
pub(crate) fn at(source: Source<'_>, token: u32, message: impl Into<std::borrow::Cow<'static, str>>) -> Diagnostic {
    let (starts, ends) = (&source.tokens.starts, &source.tokens.ends);
    let behind = small(source.text.strip_suffix('\n').unwrap_or(source.text).len());
    let start = starts.get(token as usize).copied().unwrap_or(behind);
    let end = ends.get(token as usize).copied().unwrap_or(behind);
    Diagnostic::syntax(start, end, message)
}

/// That a line is deeper than it may be, by the place of its first token: CPython names the last byte in front of it.
pub(crate) fn unexpected(first: u32) -> Diagnostic {
    let place = first.saturating_sub(1);
    let error = Diagnostic::syntax(place, place, "unexpected indent").with_span(Span::Start(-1));
    Diagnostic { class: Class::Indentation, ..error }
}

fn indentation(source: Source<'_>, token: u32, message: impl Into<std::borrow::Cow<'static, str>>) -> Diagnostic {
    Diagnostic { class: Class::Indentation, ..at(source, token, message) }
}
