//! Replacement fields of f- and t-strings: the end of each expression, and whether `=` follows it.

use crate::tokens::{Terminal, Tokens};

/// Sets the payload of each `FieldOpen` to the token that ends its expression (`!`, `:` or `}`), and makes it a
/// `DebugOpen` where that token follows `=`. Returns the first `DebugOpen` at the third nesting level: CPython has no
/// source text for it, and fails.
pub(crate) fn mark(tokens: &mut Tokens) -> Option<usize> {
    if !tokens.kinds.contains(&Terminal::FieldOpen) {
        return None;
    }
    let mut too_deep = None;
    // Open fields, and whether each is still in its expression.
    let mut open: Vec<(usize, bool)> = Vec::new();
    for index in 0..tokens.kinds.len() {
        match tokens.kinds[index] {
            Terminal::FieldOpen => open.push((index, true)),
            Terminal::FieldBang | Terminal::FieldColon => {
                if let Some((field, true)) = open.last().copied() {
                    too_deep = too_deep.or((end(tokens, field, index) && is_third(&open)).then_some(field));
                    open.pop();
                    open.push((field, false));
                }
            }
            Terminal::FieldClose => {
                if let Some((field, true)) = open.last().copied() {
                    too_deep = too_deep.or((end(tokens, field, index) && is_third(&open)).then_some(field));
                }
                open.pop();
            }
            _ => {}
        }
    }
    too_deep
}

/// Returns true if the innermost field is in the format specification of a field that is itself in one.
fn is_third(open: &[(usize, bool)]) -> bool {
    matches!(open, [.., (_, false), (_, false), _])
}

/// Records the end of a field's expression; returns whether `=` ends it.
fn end(tokens: &mut Tokens, field: usize, index: usize) -> bool {
    tokens.payloads[field] = u32::try_from(index).expect("tokens are fewer than bytes");
    let shown = tokens.kinds[index - 1] == Terminal::Equal;
    if shown {
        tokens.kinds[field] = Terminal::DebugOpen;
    }
    shown
}
