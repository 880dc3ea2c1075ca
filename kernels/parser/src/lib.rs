//! Python source to the columns of its abstract syntax tree, as CPython builds it.
//!
//! A source goes through these stages, each over flat arrays, so that a GPU can do the same work:
//!
//! 1. `text`: bytes to UTF-8, as CPython decodes a file.
//! 2. `lexer`: text to [`Tokens`] and logical [`Line`](tokens::Line)s.
//! 3. `rules` and `fields`: the few tokens whose kind depends on more than the token: `match`, `case`, `type`, `with (`,
//!    and `{` of a field with `=`.
//! 4. `driver`: an LR(1) parser over each logical line alone, by the tables of `accelerd-grammar`.
//! 5. `blocks`: lines to nested statements, by their indentation.
//! 6. `checks`: what the grammar leaves open: targets, parameter order, patterns.
//! 7. `constants`: the values of constants.
//! 8. `future`: what 3.14 says of a whole module.
//!
//! Of a source that is refused, `reasons` finds out what CPython would say, by asking the tables about parts of the line.
//!
//! The outcome is [`Columns`], described there once, for every backend and client.

#![allow(clippy::wildcard_enum_match_arm, reason = "nobody lists 77 kinds to name three")]

mod blocks;
mod checks;
pub mod columns;
mod constants;
pub mod diagnostic;
mod driver;
mod fields;
mod future;
mod kinds;
pub mod lexer;
mod modes;
mod options;
pub mod outline;
pub mod parse;
mod reasons;
mod rows;
pub mod rules;
pub mod tables;
mod terminals;
pub mod text;
pub mod tokens;
pub mod values;
pub mod view;

pub use columns::{Columns, Context, Field, Kind, NONE, Operator, Tag};
pub use diagnostic::{Class, Diagnostic, Position};
pub use options::{Mode, NEWEST, Options, SourceType};
pub use parse::{Parsed, parse};
pub use tokens::{Terminal, Tokens};
pub use view::Tree;
