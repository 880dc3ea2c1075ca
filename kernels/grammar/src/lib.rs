//! Generates the LR tables of the Python parser from `python.grammar`, whose header describes its notation.
//!
//! The build script of `accelerd-parser` runs it; the parser shares its [`terminals`] and [`kinds`]. [`grammar_parser`] parses the grammar, [`automaton`] builds the
//! LALR(1) automaton, [`tables`] optimises and compresses it, [`codegen`] generates Rust constants.

pub mod automaton;
pub mod codegen;
pub mod grammar_parser;
pub mod kinds;
pub mod tables;
pub mod terminals;

/// The grammar of a logical line of Python.
pub const PYTHON: &str = include_str!("../python.grammar");

/// An error of table generation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The notation of the grammar is invalid.
    #[error("line {line} of the grammar: {message}")]
    Notation {
        /// Counted from 1.
        line: usize,
        /// The cause.
        message: String,
    },
    /// One token of lookahead does not determine the action.
    #[error("conflict before {terminal}: {first} or {second}")]
    Conflict {
        /// The lookahead.
        terminal: String,
        /// An action.
        first: String,
        /// Another action.
        second: String,
    },
    /// A number does not fit the tables' format.
    #[error("{what}: got {got}, at most {limit} fit")]
    TooMany {
        /// The items that exceed the limit.
        what: &'static str,
        /// Their number.
        got: usize,
        /// The limit.
        limit: usize,
    },
}

/// The parser's names of terminals, kinds, fields and operators, by number.
#[derive(Debug)]
pub struct Vocabulary {
    /// Names of the terminals, by number.
    pub terminals: Vec<String>,
    /// Names of the kinds; the first one has number 1.
    pub kinds: Vec<String>,
    /// Names of the fields; the first one has number 1.
    pub fields: Vec<String>,
    /// Names of the operators; the first one has number 1.
    pub operators: Vec<String>,
}

impl Vocabulary {
    /// The terminals and node kinds of Python.
    pub fn python() -> Self {
        let names = |names: &mut dyn Iterator<Item = &'static str>| names.map(str::to_owned).collect();
        Self {
            terminals: terminals::Terminal::ALL.iter().map(|terminal| format!("{terminal:?}")).collect(),
            kinds: names(&mut kinds::Kind::ALL.iter().map(|kind| kind.name())),
            fields: names(&mut kinds::Field::ALL.iter().map(|field| field.name())),
            operators: names(&mut kinds::Operator::ALL.iter().map(|operator| operator.name())),
        }
    }
}

/// Generates the tables of a grammar as Rust constants.
pub fn generate(grammar: &str, vocabulary: &Vocabulary) -> Result<String, Error> {
    let grammar = grammar_parser::parse(grammar, vocabulary)?;
    let automaton = automaton::build(&grammar)?;
    let tables = tables::build(&grammar, &automaton)?;
    Ok(codegen::write(&grammar, &tables))
}
