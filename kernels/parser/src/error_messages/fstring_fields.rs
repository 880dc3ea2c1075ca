//! Replacement fields of f-strings before 3.12, where CPython's tokenizer emits an f-string as one token and its
//! compiler parses each expression on its own.

use super::peg_parser::{PegParser, Stop, first_error};
use super::token_stream::TokenStream;
use crate::Options;
use crate::diagnostic::{Diagnostic, Position, Span};
use crate::literals::decodes;

/// Open brackets of an expression.
const MAX_BRACKETS: usize = 200;

const EXPECTING_BRACE: &str = "f-string: expecting '}'";

/// A scanner over the body of an f-string.
struct FStringScanner<'m, 'a> {
    parser: &'m PegParser<'a>,
    /// The text between the quotes.
    body: &'a [u8],
    /// Its offset in the source.
    start: usize,
    raw: bool,
    at: usize,
}

type Outcome = Result<(), Stop>;

/// Checks the literal text and the fields of an f-string token.
pub(super) fn check(parser: &PegParser<'_>, token: usize) -> Outcome {
    let written = parser.stream.token_text(token);
    let prefix = written.find(['"', '\'']).unwrap_or(0);
    let triple = written[prefix..].starts_with("\"\"\"") || written[prefix..].starts_with("'''");
    let quotes = if triple { 3 } else { 1 };
    let body = written.as_bytes().get(prefix + quotes..written.len().saturating_sub(quotes)).unwrap_or_default();
    let start = parser.stream.starts[token] as usize + prefix + quotes;
    let raw = written[..prefix].contains(['r', 'R']);
    FStringScanner { parser, body, start, raw, at: 0 }.string(0)
}

impl FStringScanner<'_, '_> {
    fn byte(&self, offset: usize) -> u8 {
        self.body.get(offset).copied().unwrap_or(0)
    }

    fn raise(&self, message: impl Into<std::borrow::Cow<'static, str>>) -> Outcome {
        Err(Stop::Raised(self.parser.error_at_last(message)))
    }

    /// Literal text and fields up to the end; in a format specification up to the brace that closes its field.
    fn string(&mut self, depth: usize) -> Outcome {
        loop {
            if self.literal(depth)? {
                continue;
            }
            if self.at >= self.body.len() || self.byte(self.at) == b'}' {
                break;
            }
            self.field(depth)?;
        }
        if depth > 0 && self.byte(self.at) != b'}' {
            return self.raise(EXPECTING_BRACE);
        }
        Ok(())
    }

    /// Literal text up to a field; returns whether a doubled brace ended it instead.
    fn literal(&mut self, depth: usize) -> Result<bool, Stop> {
        let first = self.at;
        let mut doubled = false;
        while self.at < self.body.len() {
            let mut byte = self.body[self.at];
            self.at += 1;
            if byte == b'\\' && !self.raw && self.at < self.body.len() {
                byte = self.body[self.at];
                self.at += 1;
                if byte == b'N' {
                    self.named_escape();
                    continue;
                }
            }
            if !matches!(byte, b'{' | b'}') {
                continue;
            }
            if depth == 0 && self.byte(self.at) == byte {
                doubled = true;
                break;
            }
            if depth == 0 && byte == b'}' {
                return self.raise("f-string: single '}' is not allowed").map(|()| false);
            }
            self.at -= 1;
            break;
        }
        let text = &self.body[first..self.at];
        self.at += usize::from(doubled);
        match decodes(text) {
            Err(message) if !self.raw => self.raise(message).map(|()| false),
            _ => Ok(doubled),
        }
    }

    /// Skips the braces of `\N{...}`, which open no field.
    fn named_escape(&mut self) {
        if self.at >= self.body.len() {
            return;
        }
        self.at += 1;
        if self.body[self.at - 1] == b'{' {
            let rest = &self.body[self.at..];
            self.at += memchr::memchr(b'}', rest).map_or(rest.len(), |end| end + 1);
        }
    }

    fn field(&mut self, depth: usize) -> Outcome {
        if depth >= 2 {
            return self.raise("f-string: expressions nested too deeply");
        }
        self.at += 1;
        let first = self.at;
        self.expression_end()?;
        if self.at >= self.body.len() {
            return self.raise(EXPECTING_BRACE);
        }
        self.expression(first)?;
        if self.byte(self.at) == b'=' {
            self.at += 1;
            while matches!(self.byte(self.at), b' ' | b'\t'..=b'\r') {
                self.at += 1;
            }
        }
        if self.byte(self.at) == b'!' && self.at < self.body.len() {
            self.at += 1;
            if self.at >= self.body.len() {
                return self.raise(EXPECTING_BRACE);
            }
            if !matches!(self.byte(self.at), b's' | b'r' | b'a') {
                return self.raise("f-string: invalid conversion character: expected 's', 'r', or 'a'");
            }
            self.at += 1;
        }
        if self.byte(self.at) == b':' && self.at + 1 < self.body.len() {
            self.at += 1;
            self.string(depth + 1)?;
        }
        if self.byte(self.at) != b'}' {
            return self.raise(EXPECTING_BRACE);
        }
        self.at += 1;
        Ok(())
    }

    /// Finds the end of an expression: `!`, `:`, `=` or `}` outside of its brackets and strings.
    fn expression_end(&mut self) -> Outcome {
        // The quote of the open string and its length, 1 or 3.
        let mut quote: Option<(u8, usize)> = None;
        let mut open = Vec::new();
        while self.at < self.body.len() {
            let byte = self.body[self.at];
            let next = self.byte(self.at + 1);
            let triple = next == byte && self.at + 2 < self.body.len() && self.body[self.at + 2] == byte;
            match (byte, quote) {
                (b'\\', _) => return self.raise("f-string expression part cannot include a backslash"),
                (_, Some((wanted, times))) if byte == wanted && (times == 1 || triple) => {
                    self.at += times - 1;
                    quote = None;
                }
                (b'\'' | b'"', None) => {
                    let times = if triple { 3 } else { 1 };
                    self.at += times - 1;
                    quote = Some((byte, times));
                }
                (b'[' | b'{' | b'(', None) => {
                    if open.len() >= MAX_BRACKETS {
                        return self.raise("f-string: too many nested parenthesis");
                    }
                    open.push(byte);
                }
                (b'#', None) => return self.raise("f-string expression part cannot include '#'"),
                (b'!' | b':' | b'}' | b'=' | b'>' | b'<', None) if open.is_empty() => {
                    if next == b'=' && matches!(byte, b'!' | b'=' | b'<' | b'>') {
                        self.at += 1;
                    } else if !matches!(byte, b'<' | b'>') {
                        break;
                    }
                }
                (b']' | b'}' | b')', None) => self.close(byte, open.pop())?,
                _ => {}
            }
            self.at += 1;
        }
        match (quote, open.last()) {
            (Some(_), _) => self.raise("f-string: unterminated string"),
            (None, Some(&open)) => self.raise(format!("f-string: unmatched '{}'", char::from(open))),
            _ => Ok(()),
        }
    }

    fn close(&self, close: u8, open: Option<u8>) -> Outcome {
        let close = char::from(close);
        match (open, close) {
            (Some(b'('), ')') | (Some(b'['), ']') | (Some(b'{'), '}') => Ok(()),
            (None, _) => self.raise(format!("f-string: unmatched '{close}'")),
            (Some(open), _) => self.raise(format!(
                "f-string: closing parenthesis '{close}' does not match opening parenthesis '{}'",
                char::from(open)
            )),
        }
    }

    /// Parses the expression from `first` to the current position.
    fn expression(&self, first: usize) -> Outcome {
        let source = &self.body[first..self.at];
        if source.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)) {
            return match self.body[self.at] {
                b'}' => self.raise("f-string: empty expression not allowed"),
                end => self.raise(format!("f-string: expression required before '{}'", char::from(end))),
            };
        }
        let Ok(source) = std::str::from_utf8(source) else { return Ok(()) };
        let text = format!("({source})");
        let options = Options::version(self.parser.stream.version);
        let stream = TokenStream::new(&text, options, self.parser.grammar);
        match first_error(self.parser.grammar, &stream, 0, "field") {
            Some(error) => Err(Stop::Raised(self.relocated(error, &stream, options, first))),
            None => Ok(()),
        }
    }

    /// Maps an error of an expression to the source. CPython counts columns from the parenthesis that it inserts.
    fn relocated(&self, mut error: Diagnostic, stream: &TokenStream<'_>, options: Options, first: usize) -> Diagnostic {
        let is_tokenizer_error =
            stream.error.as_ref().is_some_and(|later| later.takes_precedence && later.diagnostic == error);
        error.locate(stream.text, options);
        let place = self.start + first;
        let above = self.parser.stream.line(u32::try_from(place).unwrap_or(u32::MAX)) - 1;
        let below = |line: Option<i32>| line.map(|line| line + i32::try_from(above).unwrap_or(0));
        let position = Position {
            lineno: below(error.position.lineno),
            end_lineno: below(error.position.end_lineno),
            ..error.position
        };
        let offset = u32::try_from(place).unwrap_or(u32::MAX);
        let end = u32::try_from(self.start + self.at).unwrap_or(u32::MAX);
        let start = (offset + error.start.saturating_sub(1)).min(end);
        let message = if is_tokenizer_error { error.message } else { format!("f-string: {}", error.message).into() };
        Diagnostic { class: error.class, ..Diagnostic::syntax(start, end, message).with_span(Span::Fixed(position)) }
    }
}
