//! Which `#` of an expression's source CPython takes for a comment's: from 3.14 on, one between an even number of quotes.

/// Whether there is a comment; what a backslash escapes is no quote here.
pub(super) fn has_comment(body: &[u8]) -> bool {
    let (mut at, mut quote) = (0, None);
    while let Some(&byte) = body.get(at) {
        match byte {
            b'\\' => at += 1,
            b'#' if quote.is_none() => return true,
            _ => quote = behind(quote, byte),
        }
        at += 1;
    }
    false
}

/// The first comment, where every quote counts.
pub(super) fn comment(body: &[u8]) -> Option<usize> {
    let mut quote = None;
    body.iter().position(|&byte| {
        quote = behind(quote, byte);
        byte == b'#' && quote.is_none()
    })
}

/// The quote that is open behind a byte.
fn behind(open: Option<u8>, byte: u8) -> Option<u8> {
    match (open, byte) {
        (None, b'\'' | b'"') => Some(byte),
        (Some(quote), _) if quote == byte => None,
        _ => open,
    }
}
