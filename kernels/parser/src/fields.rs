//! Replacement fields of f- and t-strings: where the expression of each ends, and whether `=` stands behind it.

use crate::tokens::{Terminal, Tokens};

/// Gives each `FieldOpen` the number of the token that ends its expression (`!`, `:` or `}`) as its payload, and makes it
/// a `DebugOpen` where that token follows `=`. Whether one of these is in the specification of a field that is in one
/// itself: CPython gives that no text, and fails.
pub(crate) fn mark(tokens: &mut Tokens) -> bool {
    if !tokens.kinds.contains(&Terminal::FieldOpen) {
        return false;
    }
    let mut too_deep = false;
    // The fields that are open, and whether the end of their expression is still to come.
    let mut open: Vec<(usize, bool)> = Vec::new();
    for at in 0..tokens.kinds.len() {
        match tokens.kinds[at] {
            Terminal::FieldOpen => open.push((at, true)),
            Terminal::FieldBang | Terminal::FieldColon => {
                if let Some((field, waiting)) = open.last_mut()
                    && *waiting
                {
                    *waiting = false;
                    end(tokens, *field, at);
                }
            }
            Terminal::FieldClose => {
                if let Some((field, true)) = open.pop() {
                    end(tokens, field, at);
                }
            }
            Terminal::Equal => {
                // Behind the expression of the outer two.
                too_deep |=
                    matches!(open[..], [.., (_, false), (_, false), (_, true)]) && ends_expression(tokens, at + 1);
            }
            _ => {}
        }
    }
    too_deep
}

fn ends_expression(tokens: &Tokens, at: usize) -> bool {
    let kind = tokens.kinds.get(at);
    kind.is_some_and(|kind| matches!(kind, Terminal::FieldBang | Terminal::FieldColon | Terminal::FieldClose))
}

fn end(tokens: &mut Tokens, field: usize, at: usize) {
    tokens.payloads[field] = u32::try_from(at).expect("tokens are fewer than bytes");
    if tokens.kinds[at - 1] == Terminal::Equal {
        tokens.kinds[field] = Terminal::DebugOpen;
    }
}
