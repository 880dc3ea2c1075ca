//! The tokens of a source as CPython's tokenizer passes them to its parser, with NEWLINE, INDENT and DEDENT, up to the
//! first error.

use super::grammar::{Grammar, TokenKind, class};
use crate::Options;
use crate::diagnostic::{Class, Diagnostic, Position, Span};
use crate::lexer::{self, LexError};
use crate::tokens::{Line, Terminal, Tokens};

/// The tokens as columns, and the error after the last one.
#[derive(Debug)]
pub(super) struct TokenStream<'a> {
    pub(super) text: &'a str,
    /// Minor version of Python 3.
    pub(super) version: u8,
    pub(super) kinds: Vec<TokenKind>,
    pub(super) starts: Vec<u32>,
    pub(super) ends: Vec<u32>,
    /// True if each token is inside brackets: an opening bracket is, the closing one of the outermost pair is not.
    pub(super) enclosed: Vec<bool>,
    /// The payloads of strings.
    pub(super) payloads: Vec<u32>,
    /// The tokenizer's error after the last token; without one the last token is END.
    pub(super) error: Option<LexError>,
    /// Where each line starts.
    line_starts: Vec<u32>,
}

impl<'a> TokenStream<'a> {
    pub(super) fn new(text: &'a str, options: Options, grammar: &Grammar) -> Self {
        let raw = lexer::lex_cpython(text, options);
        let expected = raw.tokens.kinds.len() + 3 * raw.lines.len() + 8;
        let mut stream = Self {
            text,
            version: options.feature_version,
            kinds: Vec::with_capacity(expected),
            starts: Vec::with_capacity(expected),
            ends: Vec::with_capacity(expected),
            enclosed: Vec::with_capacity(expected),
            payloads: Vec::with_capacity(expected),
            error: None,
            line_starts: lexer::line_starts(text),
        };
        stream.error = stream.fill(&raw, grammar).err().map(|error| *error);
        stream
    }

    fn fill(&mut self, raw: &lexer::CpythonTokens, grammar: &Grammar) -> Result<(), Box<LexError>> {
        let mut indents = lexer::IndentStack::default();
        let mut depth = 0_usize;
        let mut quoted = Vec::new();
        for (number, line) in raw.lines.iter().enumerate() {
            self.indentation(raw, line, &mut indents)?;
            for offset in line.first as usize..line.end as usize {
                if let Some(error) = self.incompatible_prefixes(&raw.tokens, offset) {
                    return Err(Box::new(error));
                }
                self.token(&raw.tokens, offset, grammar, &mut depth, &mut quoted);
            }
            if number + 1 < raw.lines.len() || raw.error.is_none() || raw.error_line.is_some() {
                let end = raw.tokens.ends[line.end as usize - 1];
                self.newline(end);
            }
        }
        if let Some(error) = &raw.error {
            if let Some(line) = &raw.error_line {
                self.indentation(raw, line, &mut indents)?;
            }
            return Err(Box::new(error.clone()));
        }
        let end = to_u32(self.text.len());
        for _ in 0..indents.close() {
            self.push(class::DEDENT, end, end, false, 0);
        }
        self.push(class::END, end, end, false, 0);
        Ok(())
    }

    /// Pushes the INDENT or DEDENTs before a line.
    fn indentation(
        &mut self,
        raw: &lexer::CpythonTokens,
        line: &Line,
        indents: &mut lexer::IndentStack,
    ) -> Result<(), Box<LexError>> {
        let start = match raw.tokens.starts.get(line.first as usize) {
            Some(&start) if line.first != line.end => start,
            _ => raw.error.as_ref().map_or(to_u32(self.text.len()), |error| error.diagnostic.start),
        };
        let (indented, dedents) = indents.enter(self.text, line, start)?;
        for _ in 0..dedents {
            self.push(class::DEDENT, start, start, false, 0);
        }
        if indented {
            self.push(class::INDENT, start, start, false, 0);
        }
        Ok(())
    }

    /// From 3.14 the tokenizer reports string prefixes that cannot be combined.
    fn incompatible_prefixes(&self, tokens: &Tokens, offset: usize) -> Option<LexError> {
        const INCOMPATIBLE: [(char, &str); 4] = [('u', "brft"), ('b', "ft"), ('f', "t"), ('t', "")];
        let start = tokens.starts[offset];
        let end = tokens.ends[offset];
        let next = self.text.as_bytes().get(end as usize);
        if self.version < 14 || tokens.kinds[offset] != Terminal::Name || !matches!(next, Some(b'"' | b'\'')) {
            return None;
        }
        let letters = self.text[start as usize..end as usize].to_ascii_lowercase();
        let once = |letter: char| "bruft".contains(letter) && letters.matches(letter).count() == 1;
        if !letters.chars().all(once) {
            return None;
        }
        let (one, other) = INCOMPATIBLE.iter().find_map(|(one, others)| {
            let other = others.chars().find(|&other| letters.contains(other))?;
            letters.contains(*one).then_some((one, other))
        })?;
        let message = format!("'{one}' and '{other}' prefixes are incompatible");
        let diagnostic = Diagnostic::syntax(start, end, message).with_span(Span::Bytes);
        Some(LexError { diagnostic, takes_precedence: true, open: None })
    }

    fn token(&mut self, tokens: &Tokens, offset: usize, grammar: &Grammar, depth: &mut usize, quoted: &mut Vec<bool>) {
        let start = tokens.starts[offset];
        let end = tokens.ends[offset];
        let written = &self.text[start as usize..end as usize];
        let template = quoted.last() == Some(&true);
        let kind = match tokens.kinds[offset] {
            Terminal::Number => class::NUMBER,
            Terminal::String => class::STRING,
            Terminal::FStringStart => {
                quoted.push(false);
                class::FSTRING_START
            }
            Terminal::TStringStart => {
                quoted.push(true);
                class::TSTRING_START
            }
            Terminal::FStringMiddle if template => class::TSTRING_MIDDLE,
            Terminal::FStringMiddle => class::FSTRING_MIDDLE,
            Terminal::FStringEnd => {
                quoted.pop();
                if template { class::TSTRING_END } else { class::FSTRING_END }
            }
            Terminal::Name => match grammar.literal(written) {
                Some(kind) if grammar.is_soft(kind) => kind,
                _ if starts_name(written) => class::NAME,
                // The lexer emits an error token as a name.
                kind => kind.unwrap_or(class::OTHER),
            },
            _ => grammar.literal(written).unwrap_or(class::OTHER),
        };
        match tokens.kinds[offset] {
            Terminal::LeftParen | Terminal::LeftBracket | Terminal::LeftBrace | Terminal::FieldOpen => *depth += 1,
            Terminal::RightParen | Terminal::RightBracket | Terminal::RightBrace | Terminal::FieldClose => {
                *depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        self.push(kind, start, end, *depth > 0, tokens.payloads[offset]);
    }

    /// The NEWLINE token of a line; it starts at the comment, if there is one.
    fn newline(&mut self, end: u32) {
        let bytes = self.text.as_bytes();
        let mut offset = end as usize;
        loop {
            match bytes.get(offset) {
                Some(b' ' | b'\t' | 0x0c) => offset += 1,
                Some(b'\\') => {
                    offset += if bytes.get(offset + 1) == Some(&b'\r') && bytes.get(offset + 2) == Some(&b'\n') {
                        3
                    } else {
                        2
                    };
                }
                _ => break,
            }
        }
        let offset = offset.min(bytes.len());
        let length = memchr::memchr2(b'\n', b'\r', &bytes[offset..]).unwrap_or(bytes.len() - offset);
        self.push(class::NEWLINE, to_u32(offset), to_u32(offset + length), false, 0);
    }

    fn push(&mut self, kind: TokenKind, start: u32, end: u32, enclosed: bool, payload: u32) {
        self.kinds.push(kind);
        self.starts.push(start);
        self.ends.push(end);
        self.enclosed.push(enclosed);
        self.payloads.push(payload);
    }

    /// The line of a byte, counted from 1.
    pub(super) fn line(&self, offset: u32) -> usize {
        self.line_starts.partition_point(|&start| start <= offset).max(1)
    }

    /// The offset of the newline that ends the text, or of the text's end.
    pub(super) fn last_newline(&self) -> usize {
        let text = self.text;
        text.strip_suffix("\r\n").or(text.strip_suffix(['\n', '\r'])).unwrap_or(text).len()
    }

    /// The line of a token. The end of the source belongs to its last line.
    pub(super) fn line_of(&self, token: usize) -> usize {
        let start = self.starts[token];
        self.line(if start as usize == self.text.len() { to_u32(self.last_newline()) } else { start })
    }

    /// Where the line of a byte starts.
    pub(super) fn line_start(&self, offset: u32) -> u32 {
        self.line_starts[self.line(offset) - 1]
    }

    pub(super) fn token_text(&self, token: usize) -> &'a str {
        &self.text[self.starts[token] as usize..self.ends[token] as usize]
    }

    pub(super) fn tokenizer_error(&self) -> Option<Diagnostic> {
        self.error.as_ref().map(|error| error.diagnostic.clone())
    }

    /// Unexpected end of the source, which has no column.
    pub(super) fn unexpected_end(&self) -> Diagnostic {
        let last = self.kinds.len() - 1;
        self.without_column(last, self.error_at(last, "invalid syntax"))
    }

    /// An error at the line of a token, without a column.
    pub(super) fn without_column(&self, token: usize, error: Diagnostic) -> Diagnostic {
        let line = i32::try_from(self.line_of(token)).unwrap_or(i32::MAX);
        error.with_span(Span::Fixed(Position::new(line, 0, line, 0)))
    }

    pub(super) fn indentation_error(&self, token: usize, message: &'static str) -> Diagnostic {
        Diagnostic { class: Class::Indentation, ..self.error_at(token, message) }
    }

    /// The tokenizer's error further on, which CPython prefers, or else `error`. `fill`: tokens fetched so far.
    pub(super) fn tokenizer_error_or(&self, error: Diagnostic, fill: usize) -> Diagnostic {
        if fill >= self.kinds.len() && self.error.is_none() {
            return error;
        }
        let Some(later) = &self.error else { return error };
        later.preferred_over(self.text, self.starts[fill - 1]).unwrap_or(error)
    }

    pub(super) fn error_at(&self, token: usize, message: impl Into<std::borrow::Cow<'static, str>>) -> Diagnostic {
        let start = self.starts[token];
        let end = self.ends[token];
        match self.kinds[token] {
            // At a token without width CPython reports the last character before it.
            class::INDENT | class::DEDENT | class::END if start as usize == self.text.len() => {
                let last = u32::try_from(self.last_newline()).unwrap_or(start);
                Diagnostic::syntax(last, last, message).with_span(Span::Start(-1))
            }
            class::INDENT | class::DEDENT if start > self.line_start(start) => {
                Diagnostic::syntax(start - 1, start - 1, message).with_span(Span::Start(-1))
            }
            class::INDENT | class::DEDENT => {
                let line = i32::try_from(self.line(start)).unwrap_or(i32::MAX);
                Diagnostic::syntax(start, start, message).with_span(Span::Fixed(Position::new(line, 0, line, -1)))
            }
            class::NEWLINE if self.version >= 12 => Diagnostic::syntax(start, end, message).with_span(Span::Newline),
            _ => Diagnostic::syntax(start, end, message),
        }
    }
}

fn starts_name(written: &str) -> bool {
    written.starts_with(|first: char| first == '_' || first.is_alphabetic() || !first.is_ascii())
}

fn to_u32(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
