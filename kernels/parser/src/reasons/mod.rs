//! Why a source is refused, in CPython's words.
//!
//! The LR parser only finds out that a source is no Python. CPython's parser tries the rules of a parsing expression
//! grammar, and after a failure it tries them again together with rules that explain common errors. This module does the
//! same, on refused sources alone: [`stream`] has the tokens as CPython's tokenizer makes them, `python.peg` the rules,
//! [`grammar`] reads them, [`machine`] tries them, and [`actions`] and [`strings`] raise what takes more than a rule.
//!
//! Nothing here changes what is refused: where the rules find nothing wrong, the LR parser's own error stands.

mod actions;
mod fields;
mod grammar;
mod machine;
mod nodes;
mod stream;
mod strings;

use self::grammar::{Grammar, class};
use self::machine::{Machine, Stop};
use self::stream::Stream;
use crate::diagnostic::{Class, Diagnostic, Position, Span};
use crate::lexer::Lexed;
use crate::tokens::Terminal;
use crate::{Mode, Options};

/// The error that CPython reports for a source that the LR parser refuses with another.
#[cold]
pub(crate) fn explain(text: &str, lexed: &Lexed, options: Options, found: Diagnostic) -> Diagnostic {
    if found.class == Class::Value {
        return found;
    }
    let grammar = Grammar::of(options.feature_version);
    let stream = Stream::new(text, options, grammar);
    let (first, rule) = match options.mode {
        Mode::Exec => {
            let first = first_token(&stream, lexed, found.start);
            let wrong = strings::first_wrong(grammar, &stream, first).map(|token| stream.starts[token]);
            (wrong.map_or(first, |place| first_token(&stream, lexed, place)), "file")
        }
        Mode::Eval => (0, "eval"),
        Mode::Single => (0, "interactive"),
    };
    match explained(grammar, &stream, first, rule) {
        // The checks of nodes refuse what was read before the rules came to their error.
        Some(error) if is_before(&stream, &found, &error) => found,
        // The other modes know best where their sources must end.
        Some(error) if options.mode != Mode::Exec && error.message == "invalid syntax" => found,
        Some(error) => error,
        None => found,
    }
}

/// Whether an error of the checks counts before one of the rules, which are those of a newer version.
fn is_before(stream: &Stream<'_>, found: &Diagnostic, error: &Diagnostic) -> bool {
    stream.version < 10
        && found.message.contains("only supported in Python")
        && stream.line(found.start) < stream.line(error.start)
}

/// What the rules find wrong from a token on.
fn explained(grammar: &'static Grammar, stream: &Stream<'_>, first: usize, rule: &str) -> Option<Diagnostic> {
    let rule = grammar.rule(rule);
    let mut machine = Machine::new(grammar, stream, first);
    match machine.run(rule, false) {
        Ok(true) | Err(Stop::Full) => return None,
        Err(Stop::Tokenizer) => return tokenizer_error(stream),
        Err(Stop::Raised(error)) => return Some(settled(stream, error, machine.fill)),
        Ok(false) => {}
    }
    let last = machine.fill - 1;
    match machine.run(rule, true) {
        Err(Stop::Full) => return None,
        Err(Stop::Tokenizer) => return tokenizer_error(stream),
        Err(Stop::Raised(error)) => return Some(settled(stream, error, machine.fill)),
        Ok(_) => {}
    }
    match stream.kinds[last] {
        class::INDENT => Some(indentation(stream, last, "unexpected indent")),
        class::DEDENT => Some(indentation(stream, last, "unexpected unindent")),
        class::END => Some(at_end(stream)),
        _ => Some(settled(stream, at_token(stream, last, "invalid syntax"), machine.fill)),
    }
}

fn tokenizer_error(stream: &Stream<'_>) -> Option<Diagnostic> {
    stream.error.as_ref().map(|error| error.diagnostic.clone())
}

/// That the source must not end there. The end has no column.
fn at_end(stream: &Stream<'_>) -> Diagnostic {
    let last = stream.kinds.len() - 1;
    without_column(stream, last, at_token(stream, last, "invalid syntax"))
}

/// An error at the line of a token.
fn without_column(stream: &Stream<'_>, token: usize, error: Diagnostic) -> Diagnostic {
    let line = i32::try_from(stream.line_of(token)).unwrap_or(i32::MAX);
    error.with_span(Span::Fixed(Position::new(line, 0, line, 0)))
}

fn indentation(stream: &Stream<'_>, token: usize, message: &'static str) -> Diagnostic {
    Diagnostic { class: Class::Indentation, ..at_token(stream, token, message) }
}

/// CPython reads the rest of the source for an error of the tokenizer, which it prefers.
fn settled(stream: &Stream<'_>, error: Diagnostic, fill: usize) -> Diagnostic {
    if fill >= stream.kinds.len() && stream.error.is_none() {
        return error;
    }
    let Some(behind) = &stream.error else { return error };
    behind.better_than(stream.text, stream.starts[fill - 1]).unwrap_or(error)
}

/// An error at a token.
fn at_token(stream: &Stream<'_>, token: usize, message: impl Into<std::borrow::Cow<'static, str>>) -> Diagnostic {
    let (start, end) = (stream.starts[token], stream.ends[token]);
    match stream.kinds[token] {
        // CPython names the last character that it has read before a token without width.
        class::INDENT | class::DEDENT | class::END if start as usize == stream.text.len() => {
            let last = u32::try_from(stream.last_newline()).unwrap_or(start);
            Diagnostic::syntax(last, last, message).with_span(Span::Start(-1))
        }
        class::INDENT | class::DEDENT if start > stream.line_start(start) => {
            Diagnostic::syntax(start - 1, start - 1, message).with_span(Span::Start(-1))
        }
        class::INDENT | class::DEDENT => {
            let line = i32::try_from(stream.line(start)).unwrap_or(i32::MAX);
            Diagnostic::syntax(start, start, message).with_span(Span::Fixed(Position::new(line, 0, line, -1)))
        }
        class::NEWLINE if stream.version >= 12 => Diagnostic::syntax(start, end, message).with_span(Span::Newline),
        _ => Diagnostic::syntax(start, end, message),
    }
}

/// The token from which on the rules are tried: the first one of the module's statement before the one with the error.
/// What stands before that is right, and CPython never goes back to it.
fn first_token(stream: &Stream<'_>, lexed: &Lexed, error: u32) -> usize {
    let tokens = &lexed.tokens;
    let starts = |line: &&crate::tokens::Line| {
        let continues = matches!(
            tokens.kinds[line.first as usize],
            Terminal::Elif | Terminal::Else | Terminal::Except | Terminal::Finally
        );
        line.column == 0 && !continues && tokens.starts[line.first as usize] < error
    };
    let line_of = |at: u32| stream.line(at);
    let before = lexed.lines.iter().rev().filter(starts).find(|line| {
        let number = line.first as usize;
        let decorated = number > 0 && is_decorator(lexed, line.first);
        !decorated && line_of(tokens.starts[number]) < line_of(error)
    });
    let place = before.map_or(0, |line| tokens.starts[line.first as usize]);
    let first = stream.starts.partition_point(|&start| start < place);
    // Tokens of indentation in front of it have its place, too.
    (first..stream.kinds.len())
        .find(|&token| !matches!(stream.kinds[token], class::INDENT | class::DEDENT))
        .filter(|_| place > 0)
        .unwrap_or(0)
}

/// Whether the line before the one with a first token is a decorator's.
fn is_decorator(lexed: &Lexed, first: u32) -> bool {
    let line = lexed.lines.partition_point(|line| line.first < first);
    line > 0 && lexed.tokens.kinds[lexed.lines[line - 1].first as usize] == Terminal::At
}
