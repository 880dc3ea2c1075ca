//! CPython's error messages for invalid sources.
//!
//! The LR parser only detects that a source is invalid. CPython's PEG parser, after a failed first pass, runs a second
//! pass with its `invalid_` rules, which raise specific messages. This module does the same for invalid sources only:
//! [`token_stream`] has the tokens of CPython's tokenizer, `python.peg` the rules, [`grammar_reader`] reads them,
//! [`peg_parser`] runs them, and [`actions`] and [`strings`] raise the errors that depend on more than token order.
//!
//! A source stays invalid whatever happens here: where the rules match, the LR parser's own error stands.

mod actions;
mod fstring_fields;
mod grammar;
mod grammar_reader;
mod node_arena;
mod peg_parser;
mod strings;
mod token_stream;

use self::grammar::class;
use self::grammar_reader::grammar_of;
use self::peg_parser::first_error;
use self::token_stream::TokenStream;
use crate::diagnostic::{Class, Diagnostic};
use crate::lexer::Lexed;
use crate::tokens::Terminal;
use crate::{Mode, Options};

/// The error that CPython reports where the LR parser or the checks `found` one.
#[cold]
pub(crate) fn explain(text: &str, lexed: &Lexed, options: Options, found: Diagnostic) -> Diagnostic {
    if found.class == Class::Value {
        return found;
    }
    let grammar = grammar_of(options.feature_version);
    let stream = TokenStream::new(text, options, grammar);
    let (first, rule) = match options.mode {
        Mode::Exec => {
            let first = first_token(&stream, lexed, found.start);
            let wrong = strings::first_invalid_literal(grammar, &stream, first).map(|token| stream.starts[token]);
            (wrong.map_or(first, |place| first_token(&stream, lexed, place)), "file")
        }
        Mode::Eval => (0, "eval"),
        Mode::Single => (0, "interactive"),
    };
    match first_error(grammar, &stream, first, rule) {
        // The version check fails on a line before the one where the rules fail.
        Some(error) if version_error_comes_first(&stream, &found, &error) => found,
        // In the other modes `modes` knows where the source must end.
        Some(error) if options.mode != Mode::Exec && error.message == "invalid syntax" => found,
        Some(error) => error,
        None => found,
    }
}

/// Returns true if an unsupported-version error precedes an error of the rules, which accept a newer grammar.
fn version_error_comes_first(stream: &TokenStream<'_>, found: &Diagnostic, error: &Diagnostic) -> bool {
    stream.version < 10
        && found.message.contains("only supported in Python")
        && stream.line(found.start) < stream.line(error.start)
}

/// The token where parsing starts: the first of the top-level statement before the one with the error. Everything
/// before it is valid, and CPython never backtracks to it.
fn first_token(stream: &TokenStream<'_>, lexed: &Lexed, error: u32) -> usize {
    let tokens = &lexed.tokens;
    let starts = |line: &&crate::tokens::Line| {
        let continues = matches!(
            tokens.kinds[line.first as usize],
            Terminal::Elif | Terminal::Else | Terminal::Except | Terminal::Finally
        );
        line.column == 0 && !continues && tokens.starts[line.first as usize] < error
    };
    let line_of = |index: u32| stream.line(index);
    let before = lexed.lines.iter().rev().filter(starts).find(|line| {
        let number = line.first as usize;
        let decorated = number > 0 && follows_decorator(lexed, line.first);
        !decorated && line_of(tokens.starts[number]) < line_of(error)
    });
    let place = before.map_or(0, |line| tokens.starts[line.first as usize]);
    let first = stream.starts.partition_point(|&start| start < place);
    // INDENT and DEDENT tokens before it have the same offset.
    (first..stream.kinds.len())
        .find(|&token| !matches!(stream.kinds[token], class::INDENT | class::DEDENT))
        .filter(|_| place > 0)
        .unwrap_or(0)
}

/// Returns true if the line before the one that starts with token `first` is a decorator.
fn follows_decorator(lexed: &Lexed, first: u32) -> bool {
    let line = lexed.lines.partition_point(|line| line.first < first);
    line > 0 && lexed.tokens.kinds[lexed.lines[line - 1].first as usize] == Terminal::At
}
