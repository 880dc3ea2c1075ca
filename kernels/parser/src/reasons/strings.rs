//! What is wrong inside of strings, which CPython looks into when it has read them.

use super::fields;
use super::grammar::{Grammar, class};
use super::machine::{Machine, Stop};
use super::nodes::{NodeKind, Value};
use super::stream::Stream;
use crate::diagnostic::Diagnostic;
use crate::values;

/// Whether a literal's prefix makes bytes of it.
pub(super) fn is_bytes(written: &str) -> bool {
    prefix(written).contains(['b', 'B'])
}

/// Whether a literal's prefix gives it fields.
pub(super) fn has_fields(written: &str) -> bool {
    prefix(written).contains(['f', 'F'])
}

fn prefix(written: &str) -> &str {
    written.find(['"', '\'']).map_or("", |end| &written[..end])
}

/// What is wrong with a string without fields.
pub(super) fn wrong_literal(stream: &Stream<'_>, token: usize) -> Option<Diagnostic> {
    let (start, end, payload) = (stream.starts[token], stream.ends[token], stream.payloads[token]);
    values::string(stream.text, start, end, payload, &mut Vec::new()).err()
}

/// What is wrong with the text between the fields of an f-string over some tokens. Inner f-strings come to their own.
pub(super) fn wrong_middle(stream: &Stream<'_>, first: usize, end: usize) -> Option<Diagnostic> {
    let mut depth = 0_usize;
    for token in first..end {
        match stream.kinds[token] {
            class::FSTRING_START | class::TSTRING_START => depth += 1,
            class::FSTRING_END | class::TSTRING_END => depth -= 1,
            class::FSTRING_MIDDLE if depth == 1 => {
                let (start, end, payload) = (stream.starts[token], stream.ends[token], stream.payloads[token]);
                let found = values::middle(stream.text, start, end, payload, (start, end), &mut Vec::new());
                if let Err(error) = found {
                    return Some(error);
                }
            }
            _ => {}
        }
    }
    None
}

/// The first literal before a token that cannot be evaluated. CPython fails there, before it reads on.
pub(super) fn first_wrong(grammar: &'static Grammar, stream: &Stream<'_>, before: usize) -> Option<usize> {
    let machine = Machine::new(grammar, stream, 0);
    (0..before).find(|&token| {
        let (start, end, payload) = (stream.starts[token], stream.ends[token], stream.payloads[token]);
        match stream.kinds[token] {
            class::NUMBER => values::number(stream.text, start, end).is_err(),
            class::STRING if stream.version < 12 && has_fields(stream.written(token)) => {
                fields::check(&machine, token).is_err()
            }
            class::STRING => is_mixed(stream, token) || wrong_literal(stream, token).is_some(),
            class::FSTRING_MIDDLE | class::TSTRING_MIDDLE => {
                values::middle(stream.text, start, end, payload, (start, end), &mut Vec::new()).is_err()
            }
            _ => false,
        }
    })
}

/// Whether one of a string and the literal behind it is bytes, and the other is not.
fn is_mixed(stream: &Stream<'_>, token: usize) -> bool {
    let next = stream.kinds.get(token + 1).copied();
    let literal = matches!(next, Some(class::STRING | class::FSTRING_START));
    literal && is_bytes(stream.written(token)) != is_bytes(stream.written(token + 1))
}

/// Strings side by side before 3.12, where an f-string is one token. They are decoded one after another, after the token
/// behind them was read.
pub(super) fn whole(machine: &mut Machine<'_>, pieces: Value, first: usize) -> Result<Option<Value>, Stop> {
    let end = machine.mark;
    let written = |token: usize| machine.stream.written(token);
    let bytes = is_bytes(written(first));
    for token in first..end {
        let fielded = has_fields(written(token));
        match wrong_literal(machine.stream, token).filter(|_| !fielded) {
            Some(error) if error.message.starts_with('(') => {
                return Err(Stop::Raised(machine.at_last(error.message)));
            }
            Some(error) => return Err(Stop::Raised(error)),
            None => {}
        }
        if is_bytes(written(token)) != bytes {
            return Err(Stop::Raised(machine.at_last("cannot mix bytes and nonbytes literals")));
        }
        if fielded {
            fields::check(machine, token)?;
        }
    }
    let fields = (first..end).any(|token| has_fields(written(token)));
    let kind = if fields { NodeKind::FString } else { NodeKind::Literal };
    Ok(Some(machine.nodes.push(kind, first, end, &[pieces])))
}
