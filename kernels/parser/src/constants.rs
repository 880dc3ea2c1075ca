//! The values of constants, from the tokens that the driver noted in `aux`.
//!
//! The text of an f-string between two fields is one constant, whichever strings it was written in. Where that text is
//! empty CPython has no node, so its row goes.

use crate::columns::{Columns, Field, Kind, NONE, VALUE_ELLIPSIS};
use crate::diagnostic::{Class, Diagnostic};
use crate::tokens::{Terminal, Tokens, string};
use crate::values::{self, Value};
use crate::{Operator, Options};

/// What an escaped newline looks like.
const NEWLINES: [&[u8]; 3] = [b"\\\n", b"\\\r\n", b"\\\r"];

type Result<T> = std::result::Result<T, Diagnostic>;

/// Gives the constants their values, in the order of their rows.
#[derive(Debug)]
pub(crate) struct Constants<'a> {
    text: &'a str,
    tokens: &'a Tokens,
    options: Options,
    /// Rows of texts that turned out to be empty.
    empty: Vec<usize>,
    pieces: Vec<Value>,
}

impl<'a> Constants<'a> {
    /// For a text and its tokens.
    pub(crate) fn new(text: &'a str, tokens: &'a Tokens, options: Options) -> Self {
        Self { text, tokens, options, empty: Vec::new(), pieces: Vec::new() }
    }

    /// Values for all rows.
    pub(crate) fn all(&mut self, columns: &mut Columns) -> Result<()> {
        for row in 0..columns.kinds.len() {
            if columns.kinds[row] == Kind::Constant && columns.aux[row] < VALUE_ELLIPSIS {
                self.constant(columns, row)?;
            }
        }
        Ok(())
    }

    fn constant(&mut self, columns: &mut Columns, row: usize) -> Result<()> {
        let token = columns.aux[row] as usize;
        let value = match self.tokens.kinds[token] {
            Terminal::Number => values::number(self.text, self.tokens.starts[token], self.tokens.ends[token])?,
            _ if columns.fields[row] == Field::Str => self.source(columns, row, token),
            Terminal::String if !is_text(columns, row) => {
                let behind = self.behind_strings(token, columns.ends[row]);
                values::strings(self.text, self.tokens, token, behind, self.blame(behind), &mut columns.extra)?
            }
            _ => {
                let Some(value) = self.text(columns, row, token)? else {
                    self.empty.push(row);
                    columns.aux[row] = NONE;
                    return Ok(());
                };
                value
            }
        };
        columns.aux[row] = u32::try_from(columns.value_tags.len()).unwrap_or(NONE);
        columns.value_tags.push(value.tag);
        columns.value_starts.push(value.start);
        columns.value_ends.push(value.end);
        Ok(())
    }

    /// The token behind the strings that start with a token and end at a place.
    fn behind_strings(&self, first: usize, end: u32) -> usize {
        let kinds = &self.tokens.kinds[first..];
        let strings = kinds.iter().zip(&self.tokens.ends[first..]);
        first + strings.take_while(|&(&kind, &behind)| kind == Terminal::String && behind <= end).count()
    }

    /// The place of a token; behind the last one, the end of that.
    fn blame(&self, token: usize) -> (u32, u32) {
        let behind = self.tokens.ends.last().copied().unwrap_or(0);
        let place = |column: &[u32]| column.get(token).copied().unwrap_or(behind);
        (place(&self.tokens.starts), place(&self.tokens.ends))
    }

    /// Text between fields, from its first token on; nothing if there are no characters in it. The row gets its place.
    fn text(&mut self, columns: &mut Columns, row: usize, first: usize) -> Result<Option<Value>> {
        let tokens = self.tokens;
        let parent = columns.parents[row] as usize;
        let end = columns.ends[parent];
        let in_spec = columns.fields[parent] == Field::FormatSpec;
        self.pieces.clear();
        let mut place = None;
        let mut bytes = None;
        let mut at = first;
        while at < tokens.kinds.len() && tokens.ends[at] <= end {
            let (start, stop, payload) = (tokens.starts[at], tokens.ends[at], tokens.payloads[at]);
            let (value, span) = match tokens.kinds[at] {
                Terminal::FStringStart | Terminal::TStringStart | Terminal::FStringEnd => {
                    at += 1;
                    continue;
                }
                Terminal::String => {
                    bytes = bytes.or((payload & string::BYTES != 0).then_some(at));
                    (values::string(self.text, start, stop, payload, &mut columns.extra)?, (start, stop))
                }
                Terminal::FStringMiddle => {
                    let payload = if in_spec { self.spec_payload(start, stop, payload) } else { payload };
                    let value = values::middle(self.text, start, stop, payload, (start, stop), &mut columns.extra);
                    let error = |error| if in_spec { self.of_spec(error) } else { error };
                    let value = value.map_err(|wrong| self.blamed(error(wrong), at))?;
                    if in_spec && self.is_plain_spec(at) {
                        self.unwrap_spec(columns, row, (start, stop));
                    }
                    if value.start == value.end {
                        at += 1;
                        continue;
                    }
                    (value, (start, self.end_of_text(start, stop, payload)))
                }
                Terminal::DebugOpen => {
                    let behind = self.end_of_debug_text(payload as usize);
                    let value = self.debug_text(at, in_spec, columns)?;
                    at = tokens.kinds.len() - 1;
                    (value, (stop, behind))
                }
                _ => break,
            };
            self.pieces.push(value);
            place = Some((place.map_or(span.0, |(start, _)| start), span.1));
            at += 1;
        }
        if let Some(bytes) = bytes {
            return Err(values::mixed(self.blame(self.behind_strings(bytes, end))));
        }
        let Some((start, stop)) = place else { return Ok(None) };
        let start = if self.empty.last() == Some(&parent) { columns.starts[row] } else { start };
        (columns.starts[row], columns.ends[row]) = (start, stop);
        let value = values::join(self.text, &self.pieces, &mut columns.extra);
        Ok((value.start != value.end).then_some(value))
    }

    /// Where CPython has literal text end: it goes on anew behind each doubled brace, and drops what is empty.
    fn end_of_text(&self, start: u32, stop: u32, payload: u32) -> u32 {
        if payload & string::CHANGED == 0 || payload & (string::RAW | string::SPEC) != 0 {
            return stop;
        }
        let whole = &self.text.as_bytes()[start as usize..stop as usize];
        let mut rest = whole;
        while let Some(before) = NEWLINES.iter().find_map(|newline| rest.strip_suffix(*newline)) {
            rest = before;
        }
        let doubled = rest.ends_with(b"{{") || rest.ends_with(b"}}");
        stop - if doubled { u32::try_from(whole.len() - rest.len()).unwrap_or(0) } else { 0 }
    }

    /// What `f"{x=}"` shows of its expression.
    fn debug_text(&self, open: usize, in_spec: bool, columns: &mut Columns) -> Result<Value> {
        let behind = self.tokens.payloads[open] as usize;
        let mut start = self.tokens.ends[open];
        let mut end = self.inequality(open, behind).unwrap_or(self.tokens.starts[behind]);
        if in_spec && self.options.feature_version >= 12 {
            let run = self.run_of_fields(open);
            start = self.tokens.ends[run[0]];
            if self.options.feature_version < 14 {
                end = self.end_of_run(&run);
            }
        }
        let value = values::expression_text(self.text, start, end, &self.options, &mut columns.extra);
        let written = &self.text.as_bytes()[start as usize..end as usize];
        // CPython decodes what a field of the string itself shows, not one of a specification.
        let decodes = !in_spec && self.options.feature_version < 14 && memchr::memchr(b'\\', written).is_some();
        if !decodes || self.is_raw(open) {
            return Ok(value);
        }
        values::decoded_expression(self.text, value, (0, 0), &mut columns.extra)
            .map_err(|error| self.blamed(error, open))
    }

    /// A field and those that end right in front of it, one behind the other. In a format specification CPython remembers
    /// only where the first one's expression starts.
    fn run_of_fields(&self, field: usize) -> Vec<usize> {
        let kinds = &self.tokens.kinds;
        let mut run = vec![field];
        let mut first = field;
        while let Some(close) = first.checked_sub(1).filter(|&at| kinds[at] == Terminal::FieldClose) {
            let mut depth = 1_usize;
            first = close;
            while depth > 0 && first > 0 {
                first -= 1;
                match kinds[first] {
                    Terminal::FieldClose => depth += 1,
                    Terminal::FieldOpen | Terminal::DebugOpen => depth -= 1,
                    _ => {}
                }
            }
            run.push(first);
        }
        run.reverse();
        run
    }

    /// Where CPython before 3.14 takes the text of a run to end: with its first expression, or where text precedes the run or
    /// two braces open it, with the first one that is shown.
    fn end_of_run(&self, run: &[usize]) -> u32 {
        let tokens = self.tokens;
        let first = run[0];
        let behind = |field: usize| tokens.payloads[field] as usize;
        let braces = self.text.as_bytes().get(tokens.ends[first] as usize) == Some(&b'{');
        if tokens.kinds[first - 1] == Terminal::FieldColon && !braces {
            return self.inequality(first, behind(first)).unwrap_or(tokens.starts[behind(first)]);
        }
        let shown = run.iter().copied().find(|&field| tokens.kinds[field] == Terminal::DebugOpen).unwrap_or(first);
        tokens.starts[behind(shown)]
    }

    /// In 3.12 and 3.13 escapes in a format specification mean something in raw strings, too.
    fn spec_payload(&self, start: u32, stop: u32, payload: u32) -> u32 {
        let written = &self.text.as_bytes()[start as usize..stop as usize];
        let decodes = matches!(self.options.feature_version, 12 | 13) && memchr::memchr(b'\\', written).is_some();
        if decodes && payload & string::RAW != 0 { payload & !string::RAW | string::CHANGED } else { payload }
    }

    /// From 3.12 on, CPython does not make the error of a format specification one of syntax.
    fn of_spec(&self, error: Diagnostic) -> Diagnostic {
        match error.message.strip_prefix("(unicode error) ") {
            Some(message) if self.options.feature_version >= 12 => {
                Diagnostic { class: Class::UnicodeDecode, message: message.to_owned().into(), ..error }
            }
            _ => error,
        }
    }

    /// Whether some text is a whole format specification, and has more behind a character's name: to CPython these are
    /// several constants, which it joins to one without a `JoinedStr` around it.
    fn is_plain_spec(&self, middle: usize) -> bool {
        let tokens = self.tokens;
        let kind = |at: usize| tokens.kinds.get(at).copied();
        let alone = middle > 0
            && kind(middle - 1) == Some(Terminal::FieldColon)
            && kind(middle + 1) == Some(Terminal::FieldClose);
        let written = &self.text.as_bytes()[tokens.starts[middle] as usize..tokens.ends[middle] as usize];
        alone
            && self.options.feature_version >= 12
            && tokens.payloads[middle] & string::RAW == 0
            && values::goes_on_after_name(written)
    }

    /// Makes the only text of a specification the specification; before 3.14 it starts behind the colon.
    fn unwrap_spec(&mut self, columns: &mut Columns, row: usize, (start, _): (u32, u32)) {
        let spec = columns.parents[row] as usize;
        (columns.fields[row], columns.parents[row]) = (Field::FormatSpec, columns.parents[spec]);
        columns.starts[row] = if self.options.feature_version < 14 { start } else { columns.starts[spec] };
        self.empty.push(spec);
    }

    /// Where the text that a field with `=` shows ends: where what follows the expression starts.
    fn end_of_debug_text(&self, behind: usize) -> u32 {
        let colon = self.tokens.kinds[behind] == Terminal::FieldColon;
        let plain = colon
            && self.options.feature_version < 14
            && self.tokens.kinds.get(behind + 1) == Some(&Terminal::FStringMiddle)
            && self.is_plain_spec(behind + 1);
        if plain { self.tokens.ends[behind] } else { self.tokens.starts[behind] }
    }

    /// Where CPython takes the text of an expression to end too early: it takes a `!=` outside of brackets for a
    /// conversion's `!`; in 3.12 and 3.13 the first one, from then on the last one where a format specification follows.
    fn inequality(&self, open: usize, behind: usize) -> Option<u32> {
        let newer = self.options.feature_version >= 14;
        if self.options.feature_version < 12 || newer && self.tokens.kinds[behind] != Terminal::FieldColon {
            return None;
        }
        let (mut depth, mut found) = (0_usize, None);
        for at in open + 1..behind {
            match self.tokens.kinds[at] {
                kind if opens(kind) => depth += 1,
                kind if closes(kind) => depth -= 1,
                Terminal::Comparison if depth == 0 && self.tokens.payloads[at] == Operator::NotEq as u32 => {
                    found = found.filter(|_| !newer).or(Some(self.tokens.starts[at]));
                }
                _ => {}
            }
        }
        found
    }

    /// Whether the string that a field is in is raw.
    #[cold]
    fn is_raw(&self, field: usize) -> bool {
        let mut depth = 0_usize;
        for at in (0..field).rev() {
            match self.tokens.kinds[at] {
                Terminal::FStringEnd => depth += 1,
                Terminal::FStringStart | Terminal::TStringStart if depth == 0 => {
                    return self.tokens.payloads[at] & string::RAW != 0;
                }
                Terminal::FStringStart | Terminal::TStringStart => depth -= 1,
                _ => {}
            }
        }
        false
    }

    /// An error of literal text is laid to the end of its string.
    #[cold]
    fn blamed(&self, mut error: Diagnostic, middle: usize) -> Diagnostic {
        let mut depth = 0_usize;
        for at in middle..self.tokens.kinds.len() {
            match self.tokens.kinds[at] {
                Terminal::FStringStart | Terminal::TStringStart => depth += 1,
                Terminal::FStringEnd if depth == 0 => {
                    (error.start, error.end) = self.blame(at);
                    break;
                }
                Terminal::FStringEnd => depth -= 1,
                _ => {}
            }
        }
        error
    }

    /// What an `Interpolation` remembers of its expression: no space around it, and no `=` behind it.
    fn source(&mut self, columns: &mut Columns, row: usize, open: usize) -> Value {
        let tokens = self.tokens;
        let behind = tokens.payloads[open] as usize;
        let (start, mut stop) = (tokens.ends[open], tokens.starts[behind]);
        if tokens.kinds[open] == Terminal::DebugOpen {
            stop = tokens.starts[behind - 1];
        }
        let end = self.inequality(open, behind).unwrap_or(stop);
        let value = values::expression_text(self.text, start, end, &self.options, &mut columns.extra);
        let value = trimmed(self.text, value, &columns.extra);
        (columns.starts[row], columns.ends[row]) = (start, stop);
        value
    }

    /// Takes out the rows of empty texts, if there are any.
    pub(crate) fn finish(self, columns: &mut Columns) {
        if !self.empty.is_empty() {
            remove(columns, &self.empty);
        }
    }
}

fn opens(kind: Terminal) -> bool {
    matches!(
        kind,
        Terminal::LeftParen
            | Terminal::LeftBracket
            | Terminal::LeftBrace
            | Terminal::WithParen
            | Terminal::FieldOpen
            | Terminal::DebugOpen
            | Terminal::FStringStart
            | Terminal::TStringStart
    )
}

fn closes(kind: Terminal) -> bool {
    matches!(
        kind,
        Terminal::RightParen
            | Terminal::RightBracket
            | Terminal::RightBrace
            | Terminal::FieldClose
            | Terminal::FStringEnd
    )
}

/// Whether a constant is text of an f-string.
fn is_text(columns: &Columns, row: usize) -> bool {
    let parent = columns.parents[row] as usize;
    columns.fields[row] == Field::Values
        && columns.kinds.get(parent).is_some_and(|kind| matches!(kind, Kind::JoinedStr | Kind::TemplateStr))
}

/// A value without the space at its end.
fn trimmed(text: &str, value: Value, extra: &[u8]) -> Value {
    let (start, end) = (value.start as usize, value.end as usize);
    let bytes = match start.checked_sub(text.len()) {
        Some(start) if end > text.len() => &extra[start..end - text.len()],
        _ => &text.as_bytes()[start..end],
    };
    let space = |byte: &&u8| byte.is_ascii_whitespace() || **byte == 0x0b;
    let spaces = bytes.iter().rev().take_while(space).count();
    Value { end: value.end - u32::try_from(spaces).unwrap_or(0), ..value }
}

/// Takes rows without children out.
fn remove(columns: &mut Columns, rows: &[usize]) {
    let mut gone = rows.iter().copied().peekable();
    let mut numbers = Vec::with_capacity(columns.kinds.len());
    let mut next = 0;
    for row in 0..columns.kinds.len() {
        numbers.push(next);
        if gone.next_if_eq(&row).is_none() {
            columns.kinds[next as usize] = columns.kinds[row];
            columns.fields[next as usize] = columns.fields[row];
            columns.parents[next as usize] = columns.parents[row];
            columns.starts[next as usize] = columns.starts[row];
            columns.ends[next as usize] = columns.ends[row];
            columns.aux[next as usize] = columns.aux[row];
            next += 1;
        }
    }
    let length = next as usize;
    columns.kinds.truncate(length);
    columns.fields.truncate(length);
    columns.parents.truncate(length);
    columns.starts.truncate(length);
    columns.ends.truncate(length);
    columns.aux.truncate(length);
    for parent in columns.parents.iter_mut().filter(|parent| **parent != NONE) {
        *parent = numbers[*parent as usize];
    }
}
