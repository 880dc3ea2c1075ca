//! Builds the tables of the Python parser from `python.grammar`, whose head describes its notation.
//!
//! Used by the build script of `accelerd-parser` alone. The stages: [`notation`] reads the grammar, [`automaton`] builds
//! LALR(1) states and refuses conflicts, [`tables`] takes out the steps that leave nothing behind, [`source`] writes the
//! result as Rust constants.

pub mod automaton;
pub mod notation;
pub mod source;
pub mod tables;

/// The grammar of a logical line of Python.
pub const PYTHON: &str = include_str!("../python.grammar");

/// Why there are no tables.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The grammar cannot be read.
    #[error("line {line} of the grammar: {message}")]
    Notation {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// One token of lookahead does not say what to do.
    #[error("conflict before {terminal}: {first} or {second}")]
    Conflict {
        /// The lookahead.
        terminal: String,
        /// What one could do.
        first: String,
        /// What one could do as well.
        second: String,
    },
    /// A number does not fit the tables' format.
    #[error("{what}: got {got}, at most {limit} fit")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many fit.
        limit: usize,
    },
}

/// The numbers that terminals, kinds, fields and operators have in the parser.
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

/// The tables of a grammar, as Rust constants.
pub fn generate(grammar: &str, vocabulary: &Vocabulary) -> Result<String, Error> {
    let grammar = notation::read(grammar, vocabulary)?;
    let automaton = automaton::build(&grammar)?;
    let tables = tables::build(&grammar, &automaton)?;
    Ok(source::write(&grammar, &tables))
}
