//! Replacement fields of f- and t-strings: where the expression of each ends, and whether `=` stands behind it.

use crate::tokens::{Terminal, Tokens};

/// Gives each `FieldOpen` the number of the token that ends its expression (`!`, `:` or `}`) as its payload, and makes it
/// a `DebugOpen` where that token follows `=`.
pub(crate) fn mark(tokens: &mut Tokens) {
    if !tokens.kinds.contains(&Terminal::FieldOpen) {
        return;
    }
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
            _ => {}
        }
    }
}

fn end(tokens: &mut Tokens, field: usize, at: usize) {
    tokens.payloads[field] = u32::try_from(at).expect("tokens are fewer than bytes");
    if tokens.kinds[at - 1] == Terminal::Equal {
        tokens.kinds[field] = Terminal::DebugOpen;
    }
}
