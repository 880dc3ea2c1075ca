//! Evaluates constants from the tokens that the driver recorded in `aux`.
//!
//! The literal text of an f-string between two fields is one constant, even across adjacent strings. CPython has no
//! node for empty text, so its row is removed.

use crate::columns::{Columns, Field, Kind, NONE, VALUE_ELLIPSIS};
use crate::diagnostic::{Class, Diagnostic};
use crate::literals::{self, Value};
use crate::tokens::{Terminal, Tokens, string};
use crate::{Operator, Options};

/// Spellings of an escaped newline.
const NEWLINES: [&[u8]; 3] = [b"\\\n", b"\\\r\n", b"\\\r"];

type Result<T> = std::result::Result<T, Diagnostic>;

/// Evaluates constants in the order of their rows.
#[derive(Debug)]
pub(crate) struct Constants<'a> {
    text: &'a str,
    tokens: &'a Tokens,
    options: Options,
    /// Rows with empty text.
    empty: Vec<usize>,
    parts: Vec<Value>,
}

impl<'a> Constants<'a> {
    pub(crate) fn new(text: &'a str, tokens: &'a Tokens, options: Options) -> Self {
        Self { text, tokens, options, empty: Vec::new(), parts: Vec::new() }
    }

    /// Evaluates all constants.
    pub(crate) fn evaluate(&mut self, columns: &mut Columns) -> Result<()> {
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
            Terminal::Number => literals::number(self.text, self.tokens.starts[token], self.tokens.ends[token])?,
            _ if columns.fields[row] == Field::Str => self.source(columns, row, token),
            Terminal::String if !is_text(columns, row) => {
                let after = self.end_of_strings(token, columns.ends[row]);
                literals::strings(self.text, self.tokens, token, after, self.token_span(after), &mut columns.extra)?
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

    /// The token after the strings from token `first` to the offset `end`.
    fn end_of_strings(&self, first: usize, end: u32) -> usize {
        let kinds = &self.tokens.kinds[first..];
        let strings = kinds.iter().zip(&self.tokens.ends[first..]);
        first + strings.take_while(|&(&kind, &after)| kind == Terminal::String && after <= end).count()
    }

    /// The range of a token, or the end of the last one for the number after it.
    fn token_span(&self, token: usize) -> (u32, u32) {
        let after = self.tokens.ends.last().copied().unwrap_or(0);
        let place = |column: &[u32]| column.get(token).copied().unwrap_or(after);
        (place(&self.tokens.starts), place(&self.tokens.ends))
    }

    /// Literal text from its first token on, or `None` if it is empty. Sets the offsets of the row.
    fn text(&mut self, columns: &mut Columns, row: usize, first: usize) -> Result<Option<Value>> {
        let tokens = self.tokens;
        let parent = columns.parents[row] as usize;
        let end = columns.ends[parent];
        let in_spec = columns.fields[parent] == Field::FormatSpec;
        self.parts.clear();
        let mut place = None;
        let mut bytes = None;
        let mut index = first;
        while index < tokens.kinds.len() && tokens.ends[index] <= end {
            let start = tokens.starts[index];
            let stop = tokens.ends[index];
            let payload = tokens.payloads[index];
            let (value, span) = match tokens.kinds[index] {
                Terminal::FStringStart | Terminal::TStringStart | Terminal::FStringEnd => {
                    index += 1;
                    continue;
                }
                Terminal::String => {
                    bytes = bytes.or((payload & string::BYTES != 0).then_some(index));
                    (literals::string(self.text, start, stop, payload, &mut columns.extra)?, (start, stop))
                }
                Terminal::FStringMiddle => {
                    let payload = if in_spec { self.spec_payload(start, stop, payload) } else { payload };
                    let value = literals::middle(self.text, start, stop, payload, (start, stop), &mut columns.extra);
                    let error = |error| if in_spec { self.as_spec_error(error) } else { error };
                    let value = value.map_err(|wrong| self.moved_to_string_end(error(wrong), index))?;
                    if in_spec && self.is_plain_spec(index) {
                        self.unwrap_spec(columns, row, (start, stop));
                    }
                    if value.start == value.end {
                        index += 1;
                        continue;
                    }
                    (value, (start, self.end_of_text(start, stop, payload)))
                }
                Terminal::DebugOpen => {
                    let after = self.end_of_debug_text(payload as usize);
                    let value = self.debug_text(index, in_spec, columns)?;
                    index = tokens.kinds.len() - 1;
                    (value, (stop, after))
                }
                _ => break,
            };
            self.parts.push(value);
            place = Some((place.map_or(span.0, |(start, _)| start), span.1));
            index += 1;
        }
        if let Some(bytes) = bytes {
            return Err(literals::mixed_bytes_error(self.token_span(self.end_of_strings(bytes, end))));
        }
        let Some((start, stop)) = place else { return Ok(None) };
        let start = if self.empty.last() == Some(&parent) { columns.starts[row] } else { start };
        (columns.starts[row], columns.ends[row]) = (start, stop);
        let value = literals::join(self.text, &self.parts, &mut columns.extra);
        Ok((value.start != value.end).then_some(value))
    }

    /// The end of literal text in CPython, which splits it after doubled braces and drops empty parts.
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

    /// The source text that `f"{x=}"` shows.
    fn debug_text(&self, open: usize, in_spec: bool, columns: &mut Columns) -> Result<Value> {
        let after = self.tokens.payloads[open] as usize;
        let mut start = self.tokens.ends[open];
        let mut end = self.inequality(open, after).unwrap_or(self.tokens.starts[after]);
        if in_spec && self.options.feature_version >= 12 {
            let run = self.run_of_fields(open);
            start = self.tokens.ends[run[0]];
            if self.options.feature_version < 14 {
                end = self.end_of_run(&run);
            }
        }
        let value = literals::expression_text(self.text, start, end, &self.options, &mut columns.extra);
        let written = &self.text.as_bytes()[start as usize..end as usize];
        // CPython decodes the text of a top-level field, not of one in a format specification.
        let decodes = !in_spec && self.options.feature_version < 14 && memchr::memchr(b'\\', written).is_some();
        if !decodes || self.is_raw(open) {
            return Ok(value);
        }
        literals::decoded_expression(self.text, value, (0, 0), &mut columns.extra)
            .map_err(|error| self.moved_to_string_end(error, open))
    }

    /// The adjacent fields that end with `field`. In a format specification CPython records only the start of the first
    /// one's expression.
    fn run_of_fields(&self, field: usize) -> Vec<usize> {
        let kinds = &self.tokens.kinds;
        let mut run = vec![field];
        let mut first = field;
        while let Some(close) = first.checked_sub(1).filter(|&index| kinds[index] == Terminal::FieldClose) {
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

    /// The end of a run's source text in CPython before 3.14: the end of its first expression; or of the first field
    /// with `=`, where text precedes the run or two braces open it.
    fn end_of_run(&self, run: &[usize]) -> u32 {
        let tokens = self.tokens;
        let first = run[0];
        let after = |field: usize| tokens.payloads[field] as usize;
        let braces = self.text.as_bytes().get(tokens.ends[first] as usize) == Some(&b'{');
        if tokens.kinds[first - 1] == Terminal::FieldColon && !braces {
            return self.inequality(first, after(first)).unwrap_or(tokens.starts[after(first)]);
        }
        let shown = run.iter().copied().find(|&field| tokens.kinds[field] == Terminal::DebugOpen).unwrap_or(first);
        tokens.starts[after(shown)]
    }

    /// In 3.12 and 3.13 escapes in the format specification of a raw string are decoded.
    fn spec_payload(&self, start: u32, stop: u32, payload: u32) -> u32 {
        let written = &self.text.as_bytes()[start as usize..stop as usize];
        let decodes = matches!(self.options.feature_version, 12 | 13) && memchr::memchr(b'\\', written).is_some();
        if decodes && payload & string::RAW != 0 { payload & !string::RAW | string::CHANGED } else { payload }
    }

    /// From 3.12 CPython raises a plain `UnicodeDecodeError` in a format specification.
    fn as_spec_error(&self, error: Diagnostic) -> Diagnostic {
        match error.message.strip_prefix("(unicode error) ") {
            Some(message) if self.options.feature_version >= 12 => {
                Diagnostic { class: Class::UnicodeDecode, message: message.to_owned().into(), ..error }
            }
            _ => error,
        }
    }

    /// Returns true if literal text is a whole format specification and continues after a `\N{...}`: CPython concatenates its
    /// parts to a constant without a `JoinedStr` around it.
    fn is_plain_spec(&self, middle: usize) -> bool {
        let tokens = self.tokens;
        let kind = |index: usize| tokens.kinds.get(index).copied();
        let alone = middle > 0
            && kind(middle - 1) == Some(Terminal::FieldColon)
            && kind(middle + 1) == Some(Terminal::FieldClose);
        let written = &self.text.as_bytes()[tokens.starts[middle] as usize..tokens.ends[middle] as usize];
        alone
            && self.options.feature_version >= 12
            && tokens.payloads[middle] & string::RAW == 0
            && literals::has_text_after_name(written)
    }

    /// Replaces a format specification by its only text; before 3.14 it starts after the colon.
    fn unwrap_spec(&mut self, columns: &mut Columns, row: usize, (start, _): (u32, u32)) {
        let spec = columns.parents[row] as usize;
        (columns.fields[row], columns.parents[row]) = (Field::FormatSpec, columns.parents[spec]);
        columns.starts[row] = if self.options.feature_version < 14 { start } else { columns.starts[spec] };
        self.empty.push(spec);
    }

    /// The end of the source text of a field with `=`: the start of the token after the expression.
    fn end_of_debug_text(&self, after: usize) -> u32 {
        let colon = self.tokens.kinds[after] == Terminal::FieldColon;
        let plain = colon
            && self.options.feature_version < 14
            && self.tokens.kinds.get(after + 1) == Some(&Terminal::FStringMiddle)
            && self.is_plain_spec(after + 1);
        if plain { self.tokens.ends[after] } else { self.tokens.starts[after] }
    }

    /// The premature end of an expression's source text in CPython, which takes a `!=` outside brackets for a
    /// conversion: the first one in 3.12 and 3.13, from 3.14 the last one before a format specification.
    fn inequality(&self, open: usize, after: usize) -> Option<u32> {
        let newer = self.options.feature_version >= 14;
        if self.options.feature_version < 12 || newer && self.tokens.kinds[after] != Terminal::FieldColon {
            return None;
        }
        let mut depth = 0_usize;
        let mut found = None;
        for index in open + 1..after {
            match self.tokens.kinds[index] {
                kind if opens(kind) => depth += 1,
                kind if closes(kind) => depth -= 1,
                Terminal::Comparison if depth == 0 && self.tokens.payloads[index] == Operator::NotEq as u32 => {
                    found = found.filter(|_| !newer).or(Some(self.tokens.starts[index]));
                }
                _ => {}
            }
        }
        found
    }

    /// Returns true if the string around a field is raw.
    #[cold]
    fn is_raw(&self, field: usize) -> bool {
        let mut depth = 0_usize;
        for index in (0..field).rev() {
            match self.tokens.kinds[index] {
                Terminal::FStringEnd => depth += 1,
                Terminal::FStringStart | Terminal::TStringStart if depth == 0 => {
                    return self.tokens.payloads[index] & string::RAW != 0;
                }
                Terminal::FStringStart | Terminal::TStringStart => depth -= 1,
                _ => {}
            }
        }
        false
    }

    /// Moves an error in literal text to the end of its string, where CPython reports it.
    #[cold]
    fn moved_to_string_end(&self, mut error: Diagnostic, middle: usize) -> Diagnostic {
        let mut depth = 0_usize;
        for index in middle..self.tokens.kinds.len() {
            match self.tokens.kinds[index] {
                Terminal::FStringStart | Terminal::TStringStart => depth += 1,
                Terminal::FStringEnd if depth == 0 => {
                    (error.start, error.end) = self.token_span(index);
                    break;
                }
                Terminal::FStringEnd => depth -= 1,
                _ => {}
            }
        }
        error
    }

    /// `Interpolation.str`: the source of the expression, without `=` and trailing white space.
    fn source(&mut self, columns: &mut Columns, row: usize, open: usize) -> Value {
        let tokens = self.tokens;
        let after = tokens.payloads[open] as usize;
        let start = tokens.ends[open];
        let mut stop = tokens.starts[after];
        if tokens.kinds[open] == Terminal::DebugOpen {
            stop = tokens.starts[after - 1];
        }
        let end = self.inequality(open, after).unwrap_or(stop);
        let value = literals::expression_text(self.text, start, end, &self.options, &mut columns.extra);
        let value = trimmed(self.text, value, &columns.extra);
        (columns.starts[row], columns.ends[row]) = (start, stop);
        value
    }

    /// Removes the rows of empty texts.
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

/// Returns true if a constant is literal text of an f- or t-string.
fn is_text(columns: &Columns, row: usize) -> bool {
    let parent = columns.parents[row] as usize;
    columns.fields[row] == Field::Values
        && columns.kinds.get(parent).is_some_and(|kind| matches!(kind, Kind::JoinedStr | Kind::TemplateStr))
}

/// A value without trailing white space.
fn trimmed(text: &str, value: Value, extra: &[u8]) -> Value {
    let start = value.start as usize;
    let end = value.end as usize;
    let bytes = match start.checked_sub(text.len()) {
        Some(start) if end > text.len() => &extra[start..end - text.len()],
        _ => &text.as_bytes()[start..end],
    };
    let space = |byte: &&u8| byte.is_ascii_whitespace() || **byte == 0x0b;
    let spaces = bytes.iter().rev().take_while(space).count();
    Value { end: value.end - u32::try_from(spaces).unwrap_or(0), ..value }
}

/// Removes rows without children.
fn remove(columns: &mut Columns, rows: &[usize]) {
    let mut removed = rows.iter().copied().peekable();
    let mut numbers = Vec::with_capacity(columns.kinds.len());
    let mut next = 0;
    for row in 0..columns.kinds.len() {
        numbers.push(next);
        if removed.next_if_eq(&row).is_none() {
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
