//! The tokens of a whole source as CPython's tokenizer hands them to its parser: with newlines and indentation, and with
//! the error that ends them.

use super::grammar::{Grammar, Kind, class};
use crate::Options;
use crate::diagnostic::{Diagnostic, Span};
use crate::lexer::{self, LexError};
use crate::tokens::{Line, Terminal, Tokens};

/// The tokens, and why there are no more of them.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    pub(super) text: &'a str,
    /// The minor version of Python.
    pub(super) version: u8,
    pub(super) kinds: Vec<Kind>,
    pub(super) starts: Vec<u32>,
    pub(super) ends: Vec<u32>,
    /// Whether each token stands in brackets; an opening one does, a closing one of the outermost does not.
    pub(super) enclosed: Vec<bool>,
    /// The payloads of strings.
    pub(super) payloads: Vec<u32>,
    /// What the tokenizer raises behind the last token; without it the last token is the end.
    pub(super) error: Option<LexError>,
    /// Where each line starts.
    line_starts: Vec<u32>,
}

impl<'a> Stream<'a> {
    pub(super) fn new(text: &'a str, options: Options, grammar: &Grammar) -> Self {
        let raw = lexer::lex_raw(text, options);
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

    fn fill(&mut self, raw: &lexer::Raw, grammar: &Grammar) -> Result<(), Box<LexError>> {
        let mut levels = lexer::Levels::default();
        let (mut depth, mut quoted) = (0_usize, Vec::new());
        for (number, line) in raw.lines.iter().enumerate() {
            self.indentation(raw, line, &mut levels)?;
            for at in line.first as usize..line.end as usize {
                if let Some(error) = self.wrong_prefix(&raw.tokens, at) {
                    return Err(Box::new(error));
                }
                self.token(&raw.tokens, at, grammar, &mut depth, &mut quoted);
            }
            if number + 1 < raw.lines.len() || raw.error.is_none() || raw.begun.is_some() {
                let end = raw.tokens.ends[line.end as usize - 1];
                self.newline(end);
            }
        }
        if let Some(error) = &raw.error {
            if let Some(line) = &raw.begun {
                self.indentation(raw, line, &mut levels)?;
            }
            return Err(Box::new(error.clone()));
        }
        let end = small(self.text.len());
        for _ in 0..levels.close() {
            self.push(class::DEDENT, end, end, false, 0);
        }
        self.push(class::END, end, end, false, 0);
        Ok(())
    }

    /// Brings the indentation to that of a line.
    fn indentation(&mut self, raw: &lexer::Raw, line: &Line, levels: &mut lexer::Levels) -> Result<(), Box<LexError>> {
        let start = match raw.tokens.starts.get(line.first as usize) {
            Some(&start) if line.first != line.end => start,
            _ => raw.error.as_ref().map_or(small(self.text.len()), |error| error.diagnostic.start),
        };
        let (deeper, less) = levels.enter(self.text, line, start)?;
        for _ in 0..less {
            self.push(class::DEDENT, start, start, false, 0);
        }
        if deeper {
            self.push(class::INDENT, start, start, false, 0);
        }
        Ok(())
    }

    /// From 3.14 on the tokenizer names two letters in front of a quote that cannot both be a string's prefix.
    fn wrong_prefix(&self, tokens: &Tokens, at: usize) -> Option<LexError> {
        const INCOMPATIBLE: [(char, &str); 4] = [('u', "brft"), ('b', "ft"), ('f', "t"), ('t', "")];
        let (start, end) = (tokens.starts[at], tokens.ends[at]);
        let behind = self.text.as_bytes().get(end as usize);
        if self.version < 14 || tokens.kinds[at] != Terminal::Name || !matches!(behind, Some(b'"' | b'\'')) {
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
        Some(LexError { diagnostic, eager: true, open: None })
    }

    fn token(&mut self, tokens: &Tokens, at: usize, grammar: &Grammar, depth: &mut usize, quoted: &mut Vec<bool>) {
        let (start, end) = (tokens.starts[at], tokens.ends[at]);
        let written = &self.text[start as usize..end as usize];
        let template = quoted.last() == Some(&true);
        let kind = match tokens.kinds[at] {
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
                // A character that no token has stands there as a name.
                kind => kind.unwrap_or(class::OTHER),
            },
            _ => grammar.literal(written).unwrap_or(class::OTHER),
        };
        match tokens.kinds[at] {
            Terminal::LeftParen | Terminal::LeftBracket | Terminal::LeftBrace | Terminal::FieldOpen => *depth += 1,
            Terminal::RightParen | Terminal::RightBracket | Terminal::RightBrace | Terminal::FieldClose => {
                *depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        self.push(kind, start, end, *depth > 0, tokens.payloads[at]);
    }

    /// The newline behind a line's last token. It starts where the comment does, if there is one.
    fn newline(&mut self, end: u32) {
        let bytes = self.text.as_bytes();
        let mut at = end as usize;
        loop {
            match bytes.get(at) {
                Some(b' ' | b'\t' | 0x0c) => at += 1,
                Some(b'\\') => {
                    at += if bytes.get(at + 1) == Some(&b'\r') && bytes.get(at + 2) == Some(&b'\n') { 3 } else { 2 };
                }
                _ => break,
            }
        }
        let at = at.min(bytes.len());
        let length = memchr::memchr2(b'\n', b'\r', &bytes[at..]).unwrap_or(bytes.len() - at);
        self.push(class::NEWLINE, small(at), small(at + length), false, 0);
    }

    fn push(&mut self, kind: Kind, start: u32, end: u32, enclosed: bool, payload: u32) {
        self.kinds.push(kind);
        self.starts.push(start);
        self.ends.push(end);
        self.enclosed.push(enclosed);
        self.payloads.push(payload);
    }

    /// The line of a byte, from 1.
    pub(super) fn line(&self, at: u32) -> usize {
        self.line_starts.partition_point(|&start| start <= at).max(1)
    }

    /// Where the newline starts that ends the text; the text's end if there is none.
    pub(super) fn last_newline(&self) -> usize {
        let text = self.text;
        text.strip_suffix("\r\n").or(text.strip_suffix(['\n', '\r'])).unwrap_or(text).len()
    }

    /// The line of a token. The end of the source is part of its last line.
    pub(super) fn line_of(&self, token: usize) -> usize {
        let start = self.starts[token];
        self.line(if start as usize == self.text.len() { small(self.last_newline()) } else { start })
    }

    /// Where the line of a byte starts.
    pub(super) fn line_start(&self, at: u32) -> u32 {
        self.line_starts[self.line(at) - 1]
    }

    pub(super) fn written(&self, token: usize) -> &'a str {
        &self.text[self.starts[token] as usize..self.ends[token] as usize]
    }
}

fn starts_name(written: &str) -> bool {
    written.starts_with(|first: char| first == '_' || first.is_alphabetic() || !first.is_ascii())
}

fn small(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
