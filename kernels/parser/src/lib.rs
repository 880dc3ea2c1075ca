//! Parses Python to the columns of the abstract syntax tree that CPython builds.
//!
//! The stages work on flat arrays, so that a GPU can run them too:
//!
//! 1. `text`: bytes to UTF-8, as CPython decodes a file.
//! 2. `lexer`: text to [`Tokens`] and logical [`Line`](tokens::Line)s.
//! 3. `soft_keywords` and `replacement_fields`: tokens whose terminal depends on context: `match`, `case`, `type`,
//!    `with (`, and `{` of a field with `=`.
//! 4. `driver`: an LR(1) parser of each logical line on its own, by the tables of `accelerd-grammar`.
//! 5. `blocks`: lines to nested statements, by indentation.
//! 6. `checks`: rules beyond the grammar: targets, parameter order, patterns.
//! 7. `constants`: the values of constants.
//! 8. `future`: `__future__` imports, from 3.14.
//!
//! For an invalid source `error_messages` determines CPython's error, by running the rules of CPython's PEG parser.
//!
//! The result is [`Columns`], whose documentation holds for every backend and client.

#![allow(clippy::wildcard_enum_match_arm, reason = "matches on `Kind` name a few of 77")]

mod blocks;
mod checks;
pub mod columns;
mod constants;
pub mod diagnostic;
mod driver;
mod encoding_cookie;
mod error_messages;
mod future;
pub mod lexer;
pub mod literals;
mod modes;
mod nodes;
mod options;
pub mod outline;
pub mod parse;
mod replacement_fields;
pub mod soft_keywords;
pub mod tables;
pub mod text;
pub mod tokens;
mod unicode_names;
pub mod view;

use accelerd_grammar::{kinds, terminals};
pub use columns::{Columns, Context, Field, Kind, NONE, Operator, Tag};
pub use diagnostic::{Class, Diagnostic, Position};
pub use options::{Mode, NEWEST, Options, SourceType};
pub use parse::{Parsed, parse};
pub use tokens::{Terminal, Tokens};
pub use view::Tree;
