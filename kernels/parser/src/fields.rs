//! Replacement fields of f- and t-strings: where the expression of each ends, and whether `=` stands behind it.

use crate::tokens::{Terminal, Tokens};

/// Gives each `FieldOpen` the number of the token that ends its expression (`!`, `:` or `}`) as its payload, and makes it
/// a `DebugOpen` where that token follows `=`. Gives the first of these that is in the specification of a field that is
/// in one itself: CPython has no text for it, and fails.
pub(crate) fn mark(tokens: &mut Tokens) -> Option<usize> {
    if !tokens.kinds.contains(&Terminal::FieldOpen) {
        return None;
    }
    let mut too_deep = None;
    // The fields that are open, and whether the end of their expression is still to come.
    let mut open: Vec<(usize, bool)> = Vec::new();
    for at in 0..tokens.kinds.len() {
        match tokens.kinds[at] {
            Terminal::FieldOpen => open.push((at, true)),
            Terminal::FieldBang | Terminal::FieldColon => {
                if let Some((field, true)) = open.last().copied() {
                    too_deep = too_deep.or((end(tokens, field, at) && is_third(&open)).then_some(field));
                    open.pop();
                    open.push((field, false));
                }
            }
            Terminal::FieldClose => {
                if let Some((field, true)) = open.last().copied() {
                    too_deep = too_deep.or((end(tokens, field, at) && is_third(&open)).then_some(field));
                }
                open.pop();
            }
            _ => {}
        }
    }
    too_deep
}

/// Whether the innermost field is in the specification of one that is in another's.
fn is_third(open: &[(usize, bool)]) -> bool {
    matches!(open, [.., (_, false), (_, false), _])
}

/// Notes where the expression of a field ends; whether `=` stands behind it.
fn end(tokens: &mut Tokens, field: usize, at: usize) -> bool {
    tokens.payloads[field] = u32::try_from(at).expect("tokens are fewer than bytes");
    let shown = tokens.kinds[at - 1] == Terminal::Equal;
    if shown {
        tokens.kinds[field] = Terminal::DebugOpen;
    }
    shown
}
