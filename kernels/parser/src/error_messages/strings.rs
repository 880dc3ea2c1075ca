//! Errors inside string literals, which CPython decodes after it has parsed them.

use super::fstring_fields;
use super::grammar::{Grammar, class};
use super::node_arena::{Match, NodeKind};
use super::peg_parser::{PegParser, Stop};
use super::token_stream::TokenStream;
use crate::diagnostic::Diagnostic;
use crate::literals;

pub(super) fn is_bytes(written: &str) -> bool {
    prefix(written).contains(['b', 'B'])
}

/// Returns true if a literal is an f-string.
pub(super) fn has_fields(written: &str) -> bool {
    prefix(written).contains(['f', 'F'])
}

fn prefix(written: &str) -> &str {
    written.find(['"', '\'']).map_or("", |end| &written[..end])
}

/// The error of a plain string or bytes literal.
pub(super) fn literal_error(stream: &TokenStream<'_>, token: usize) -> Option<Diagnostic> {
    let start = stream.starts[token];
    let end = stream.ends[token];
    let payload = stream.payloads[token];
    literals::string(stream.text, start, end, payload, &mut Vec::new()).err()
}

/// The error in the literal text of the f-string at `first..end`; nested f-strings are checked on their own.
pub(super) fn middle_error(stream: &TokenStream<'_>, first: usize, end: usize) -> Option<Diagnostic> {
    let mut depth = 0_usize;
    for token in first..end {
        match stream.kinds[token] {
            class::FSTRING_START | class::TSTRING_START => depth += 1,
            class::FSTRING_END | class::TSTRING_END => depth -= 1,
            class::FSTRING_MIDDLE if depth == 1 => {
                let start = stream.starts[token];
                let end = stream.ends[token];
                let payload = stream.payloads[token];
                let found = literals::middle(stream.text, start, end, payload, (start, end), &mut Vec::new());
                if let Err(error) = found {
                    return Some(error);
                }
            }
            _ => {}
        }
    }
    None
}

/// The first invalid literal before a token: CPython raises there before it parses on.
pub(super) fn first_invalid_literal(
    grammar: &'static Grammar,
    stream: &TokenStream<'_>,
    before: usize,
) -> Option<usize> {
    let parser = PegParser::new(grammar, stream, 0);
    (0..before).find(|&token| {
        let start = stream.starts[token];
        let end = stream.ends[token];
        let payload = stream.payloads[token];
        match stream.kinds[token] {
            class::NUMBER => literals::number(stream.text, start, end).is_err(),
            class::STRING if stream.version < 12 && has_fields(stream.token_text(token)) => {
                fstring_fields::check(&parser, token).is_err()
            }
            class::STRING => mixes_bytes(stream, token) || literal_error(stream, token).is_some(),
            class::FSTRING_MIDDLE | class::TSTRING_MIDDLE => {
                literals::middle(stream.text, start, end, payload, (start, end), &mut Vec::new()).is_err()
            }
            _ => false,
        }
    })
}

/// Returns true if a string and the adjacent literal mix bytes and non-bytes.
fn mixes_bytes(stream: &TokenStream<'_>, token: usize) -> bool {
    let next = stream.kinds.get(token + 1).copied();
    let literal = matches!(next, Some(class::STRING | class::FSTRING_START));
    literal && is_bytes(stream.token_text(token)) != is_bytes(stream.token_text(token + 1))
}

/// `_PyPegen_concatenate_strings` before 3.12, where an f-string is one token: decodes adjacent strings in order, after
/// the token that follows them was fetched.
pub(super) fn concatenate(parser: &mut PegParser<'_>, pieces: Match, first: usize) -> Result<Option<Match>, Stop> {
    let end = parser.mark;
    let token_text = |token: usize| parser.stream.token_text(token);
    let bytes = is_bytes(token_text(first));
    for token in first..end {
        let is_fstring = has_fields(token_text(token));
        match literal_error(parser.stream, token).filter(|_| !is_fstring) {
            Some(error) if error.message.starts_with('(') => {
                return Err(Stop::Raised(parser.error_at_last(error.message)));
            }
            Some(error) => return Err(Stop::Raised(error)),
            None => {}
        }
        if is_bytes(token_text(token)) != bytes {
            return Err(Stop::Raised(parser.error_at_last("cannot mix bytes and nonbytes literals")));
        }
        if is_fstring {
            fstring_fields::check(parser, token)?;
        }
    }
    let fields = (first..end).any(|token| has_fields(token_text(token)));
    let kind = if fields { NodeKind::FString } else { NodeKind::Literal };
    Ok(Some(parser.nodes.push(kind, first, end, &[pieces])))
}
