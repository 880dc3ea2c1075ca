//! `from __future__` imports: from 3.14 on `ast.parse` rejects undefined features.

use crate::columns::{Columns, Field, Kind, NONE, Tag, VALUE_ELLIPSIS};
use crate::diagnostic::Diagnostic;
use crate::lexer::Lexed;

const FEATURES: [&[u8]; 10] = [
    b"annotations",
    b"division",
    b"absolute_import",
    b"print_function",
    b"unicode_literals",
    b"generator_stop",
    b"with_statement",
    b"nested_scopes",
    b"generators",
    b"barry_as_FLUFL",
];

/// Checks the imports at the start of a module, after its docstring.
pub(crate) fn check(text: &str, lexed: &Lexed, columns: &Columns) -> Result<(), Diagnostic> {
    let mut first = 0;
    for row in 0..columns.kinds.len() {
        if columns.parents[row] != NONE {
            continue;
        }
        match columns.kinds[row] {
            Kind::ImportFrom if is_future(text, lexed, columns, first, row) => {
                features(text, lexed, columns, first, row)?;
            }
            Kind::Expr if first == 0 && is_text(columns, row) => {}
            _ => return Ok(()),
        }
        first = row + 1;
    }
    Ok(())
}

/// Returns true if an expression statement is a string.
fn is_text(columns: &Columns, row: usize) -> bool {
    let value = columns.aux[row - 1];
    columns.kinds[row - 1] == Kind::Constant
        && value < VALUE_ELLIPSIS
        && matches!(columns.value_tags[value as usize], Tag::Str | Tag::UnicodeStr)
}

fn is_future(text: &str, lexed: &Lexed, columns: &Columns, first: usize, row: usize) -> bool {
    let parts: Vec<usize> = (first..row).filter(|&part| columns.fields[part] == Field::Module).collect();
    columns.aux[row] == 0
        && parts.len() == 1
        && lexed.name(text, &columns.extra, columns.aux[parts[0]]) == b"__future__"
}

fn features(text: &str, lexed: &Lexed, columns: &Columns, first: usize, row: usize) -> Result<(), Diagnostic> {
    for alias in (first..row).filter(|&alias| columns.parents[alias] as usize == row) {
        if columns.fields[alias] != Field::Names {
            continue;
        }
        // The alias has a name and at most an `asname`.
        let written = (first.max(alias.saturating_sub(2))..alias)
            .find(|&part| columns.parents[part] as usize == alias && columns.fields[part] == Field::Name)
            .map_or(b"*".as_slice(), |part| lexed.name(text, &columns.extra, columns.aux[part]));
        if FEATURES.contains(&written) {
            continue;
        }
        let start = columns.starts[alias];
        let end = columns.ends[alias];
        let message = match written {
            b"braces" => "not a chance".to_owned(),
            _ => format!("future feature {} is not defined", String::from_utf8_lossy(written)),
        };
        return Err(Diagnostic::syntax(start, end, message));
    }
    Ok(())
}
