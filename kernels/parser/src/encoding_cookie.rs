//! The PEP 263 cookie: a comment in the first or second line that declares the encoding of a file.

use memchr::{memchr2, memmem};

/// The encoding declared in one of the first two lines. The second line counts only if the first is blank or a comment.
pub(crate) fn declared(source: &[u8]) -> Option<String> {
    let (first, rest) = split_line(source);
    if let Some(name) = cookie(first) {
        return Some(name);
    }
    let begin = first.iter().find(|byte| !matches!(byte, b' ' | b'\t' | 0x0c));
    if begin.is_some_and(|&byte| byte != b'#') {
        return None;
    }
    cookie(split_line(rest).0)
}

/// The first line without its newline, and the rest.
pub(crate) fn split_line(source: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr2(b'\n', b'\r', source).unwrap_or(source.len());
    let rest = &source[end..];
    let newline = if rest.starts_with(b"\r\n") { 2 } else { rest.len().min(1) };
    (&source[..end], &rest[newline..])
}

/// The encoding that a line declares.
pub(crate) fn cookie(line: &[u8]) -> Option<String> {
    let comment = line.iter().position(|byte| !matches!(byte, b' ' | b'\t' | 0x0c))?;
    if line[comment] != b'#' {
        return None;
    }
    memmem::find_iter(line, b"coding").find_map(|offset| {
        let (b':' | b'=', name) = line[offset + 6..].split_first()? else { return None };
        let name = &name[name.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()..];
        let word = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let name = &name[..name.iter().take_while(word).count()];
        (!name.is_empty()).then(|| normalized(name))
    })
}

/// `get_normal_name`: one spelling each for UTF-8 and Latin-1.
fn normalized(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).into_owned();
    let start: String = name.chars().take(12).map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect();
    let is = |known: &str| start.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    if is("utf-8") {
        "utf-8".to_owned()
    } else if is("latin-1") || is("iso-8859-1") || is("iso-latin-1") {
        "iso-8859-1".to_owned()
    } else {
        name
    }
}
