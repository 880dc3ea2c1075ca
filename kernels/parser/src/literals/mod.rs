//! Values of literals: numbers keep their spelling, strings are decoded.
//!
//! A value is a slice of the text where decoding changes no byte; else it is appended to `extra`.

mod escapes;

use self::escapes::Escapes;
use crate::Options;
use crate::columns::Tag;
use crate::diagnostic::{Class, Diagnostic};
use crate::tokens::{Tokens, string};

/// `sys.int_info.default_max_str_digits`.
const MAX_INT_DIGITS: usize = 4300;

/// A row of the value columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its type.
    pub tag: Tag,
    /// Its start in the text or, from the text's length on, in `extra`.
    pub start: u32,
    /// Its end.
    pub end: u32,
}

type Result = std::result::Result<Value, Diagnostic>;

/// The value of a number token.
pub fn number(text: &str, start: u32, end: u32) -> Result {
    let written = &text.as_bytes()[start as usize..end as usize];
    let based = written.len() > 1 && matches!(written[1] | 0x20, b'x' | b'o' | b'b');
    let tag = match written {
        [.., b'j' | b'J'] => Tag::Imaginary,
        _ if !based && written.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => Tag::Float,
        _ => Tag::Int,
    };
    if tag == Tag::Int && !based && written.len() > MAX_INT_DIGITS {
        check_digits(written, start, end)?;
    }
    Ok(Value { tag, start, end })
}

#[cold]
fn check_digits(written: &[u8], start: u32, end: u32) -> std::result::Result<(), Diagnostic> {
    let digits = written.iter().filter(|byte| byte.is_ascii_digit()).count();
    // A decimal integer that starts with 0 is 0.
    if digits <= MAX_INT_DIGITS || written[0] == b'0' {
        return Ok(());
    }
    let message = format!(
        "Exceeds the limit ({MAX_INT_DIGITS} digits) for integer string conversion: value has {digits} digits; \
         use sys.set_int_max_str_digits() to increase the limit \
         - Consider hexadecimal for huge integer literals to avoid decimal conversion limits."
    );
    Err(Diagnostic::syntax(start, end, message))
}

/// The value of a string token, by its payload.
pub fn string(text: &str, start: u32, end: u32, payload: u32, extra: &mut Vec<u8>) -> Result {
    let quotes = if payload & string::TRIPLE == 0 { 1 } else { 3 };
    let from = start + (payload >> string::PREFIX_SHIFT) + quotes;
    let to = end - quotes;
    let body = &text.as_bytes()[from as usize..to as usize];
    let bytes = payload & string::BYTES != 0;
    let tag = match payload & (string::BYTES | string::UNICODE) {
        0 => Tag::Str,
        string::BYTES => Tag::Bytes,
        _ => Tag::UnicodeStr,
    };
    if bytes && !body.is_ascii() {
        return Err(Diagnostic::syntax(start, end, "bytes can only contain ASCII literal characters"));
    }
    let raw = payload & string::RAW != 0;
    if payload & string::CHANGED == 0 || memchr::memchr2(b'\r', if raw { b'\r' } else { b'\\' }, body).is_none() {
        return Ok(Value { tag, start: from, end: to });
    }
    let decoded = extra.len();
    if raw {
        push_with_newlines(extra, body);
    } else if let Err(message) = (Escapes { body, bytes, braces: false }).decode(extra) {
        extra.truncate(decoded);
        return Err(Diagnostic::syntax(start, end, message));
    }
    Ok(appended(tag, text, decoded, extra))
}

/// Checks the escapes in literal text of an f-string; an error is CPython's message.
pub(crate) fn decodes(body: &[u8]) -> std::result::Result<(), String> {
    if memchr::memchr(b'\\', body).is_none() {
        return Ok(());
    }
    (Escapes { body, bytes: false, braces: false }).decode(&mut Vec::new())
}

/// The value of literal text of an f- or t-string, by its token's payload. An error is at `error_span`, the last token
/// that CPython has fetched by then: the end of the string.
pub fn middle(text: &str, start: u32, end: u32, payload: u32, error_span: (u32, u32), extra: &mut Vec<u8>) -> Result {
    let body = &text.as_bytes()[start as usize..end as usize];
    if payload & string::CHANGED == 0 {
        return Ok(Value { tag: Tag::Str, start, end });
    }
    let spec = payload & string::SPEC != 0;
    let raw = payload & string::RAW != 0;
    let decoded = extra.len();
    if raw {
        let before = extra.len();
        push_with_newlines(extra, body);
        if !spec {
            unescape_braces(extra, before);
        }
    } else if let Err(message) = (Escapes { body, bytes: false, braces: !spec }).decode(extra) {
        extra.truncate(decoded);
        let (start, end) = error_span;
        let class = if spec { Class::UnicodeDecode } else { Class::Syntax };
        // In a format specification CPython raises a plain `UnicodeDecodeError`.
        let message = if spec { message.replacen("(unicode error) ", "", 1) } else { message };
        return Err(Diagnostic { class, ..Diagnostic::syntax(start, end, message) });
    }
    Ok(appended(Tag::Str, text, decoded, extra))
}

/// Returns true if literal text continues after a `\N{...}`: CPython's tokenizer splits it there.
pub(crate) fn has_text_after_name(mut body: &[u8]) -> bool {
    while let Some(offset) = memchr::memchr(b'\\', body) {
        let rest = &body[offset + 1..];
        if let Some(name) = rest.strip_prefix(b"N{") {
            let Some(end) = memchr::memchr(b'}', name) else { return false };
            return end + 1 < name.len();
        }
        body = rest.get(1..).unwrap_or_default();
    }
    false
}

/// The value of adjacent strings: the `String` tokens `first..end`. Mixed bytes and strings are an error at
/// `error_span`, the token after them, which CPython has fetched by then.
pub fn strings(
    text: &str,
    tokens: &Tokens,
    first: usize,
    end: usize,
    error_span: (u32, u32),
    extra: &mut Vec<u8>,
) -> Result {
    let part = |index: usize, extra: &mut Vec<u8>| {
        string(text, tokens.starts[index], tokens.ends[index], tokens.payloads[index], extra)
    };
    if end - first == 1 {
        return part(first, extra);
    }
    let is_bytes = |payload: &u32| payload & string::BYTES;
    let kinds = &tokens.payloads[first..end];
    if kinds.iter().any(|payload| is_bytes(payload) != is_bytes(&kinds[0])) {
        return Err(mixed_bytes_error(error_span));
    }
    let mut values = Vec::with_capacity(end - first);
    // Parts decoded consecutively into `extra` are already contiguous.
    let before = extra.len();
    for index in first..end {
        match part(index, extra) {
            Ok(value) => values.push(value),
            Err(error) => {
                extra.truncate(before);
                return Err(error);
            }
        }
    }
    Ok(join(text, &values, extra))
}

/// The error of adjacent bytes and strings.
pub fn mixed_bytes_error(error_span: (u32, u32)) -> Diagnostic {
    Diagnostic::syntax(error_span.0, error_span.1, "cannot mix bytes and nonbytes literals")
}

/// Concatenates values, of which there is at least one; the result has the first one's tag.
pub fn join(text: &str, values: &[Value], extra: &mut Vec<u8>) -> Value {
    let tag = values[0].tag;
    let mut parts = values.iter().filter(|value| value.start != value.end);
    let Some(first) = parts.next() else { return Value { tag, ..values[0] } };
    let mut joined = Value { tag, ..*first };
    for part in parts {
        if part.start != joined.end || (part.start as usize) == text.len() {
            return join_copied(text, values, extra);
        }
        joined.end = part.end;
    }
    joined
}

fn join_copied(text: &str, values: &[Value], extra: &mut Vec<u8>) -> Value {
    let start = extra.len();
    for value in values {
        let from = value.start as usize;
        let to = value.end as usize;
        match from.checked_sub(text.len()) {
            Some(from) => extra.extend_from_within(from..to - text.len()),
            None => extra.extend_from_slice(&text.as_bytes()[from..to]),
        }
    }
    appended(values[0].tag, text, start, extra)
}

/// The source of a field's expression, as `f"{x=}"` and t-strings keep it: without comments, but with their newlines.
///
/// Before 3.14 CPython treats each `#` as a comment, inside strings too; from 3.14 it tracks quotes.
pub fn expression_text(text: &str, start: u32, end: u32, options: &Options, extra: &mut Vec<u8>) -> Value {
    let body = &text.as_bytes()[start as usize..end as usize];
    if memchr::memchr2(b'#', b'\r', body).is_none() {
        return Value { tag: Tag::Str, start, end };
    }
    let before = extra.len();
    let quotes = options.feature_version >= 14;
    if quotes && !has_comment(body) {
        push_with_newlines(extra, body);
        return appended(Tag::Str, text, before, extra);
    }
    let mut rest = body;
    while let Some(hash) = if quotes { comment_start(rest) } else { memchr::memchr(b'#', rest) } {
        push_with_newlines(extra, &rest[..hash]);
        rest = &rest[hash..];
        rest = &rest[memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())..];
    }
    push_with_newlines(extra, rest);
    appended(Tag::Str, text, before, extra)
}

/// The source of a field's expression before 3.14, where CPython decodes its escapes as in literal text. An error is at
/// `error_span`.
pub fn decoded_expression(text: &str, value: Value, error_span: (u32, u32), extra: &mut Vec<u8>) -> Result {
    let from = value.start as usize;
    let to = value.end as usize;
    let body = match from.checked_sub(text.len()) {
        Some(from) => extra[from..to - text.len()].to_vec(),
        None => text.as_bytes()[from..to].to_vec(),
    };
    let before = extra.len();
    (Escapes { body: &body, bytes: false, braces: false })
        .decode(extra)
        .map_err(|message| Diagnostic::syntax(error_span.0, error_span.1, message))?;
    Ok(appended(Tag::Str, text, before, extra))
}

/// Returns true if there is a comment, by the quotes that no backslash escapes.
fn has_comment(body: &[u8]) -> bool {
    let mut offset = 0;
    let mut quote = None;
    while let Some(&byte) = body.get(offset) {
        match byte {
            b'\\' => offset += 1,
            b'#' if quote.is_none() => return true,
            _ => quote = quote_after(quote, byte),
        }
        offset += 1;
    }
    false
}

/// The first comment, by all quotes.
fn comment_start(body: &[u8]) -> Option<usize> {
    let mut quote = None;
    body.iter().position(|&byte| {
        quote = quote_after(quote, byte);
        byte == b'#' && quote.is_none()
    })
}

/// The open quote after a byte.
fn quote_after(open: Option<u8>, byte: u8) -> Option<u8> {
    match (open, byte) {
        (None, b'\'' | b'"') => Some(byte),
        (Some(quote), _) if quote == byte => None,
        _ => open,
    }
}

fn appended(tag: Tag, text: &str, from: usize, extra: &[u8]) -> Value {
    let at = |length: usize| u32::try_from(text.len() + length).expect("values of a text of at most 1 GiB fit");
    Value { tag, start: at(from), end: at(extra.len()) }
}

/// Appends bytes, with CR and CRLF as LF.
fn push_with_newlines(extra: &mut Vec<u8>, mut bytes: &[u8]) {
    while let Some(offset) = memchr::memchr(b'\r', bytes) {
        extra.extend_from_slice(&bytes[..offset]);
        extra.push(b'\n');
        bytes = &bytes[offset + 1..];
        bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
    }
    extra.extend_from_slice(bytes);
}

/// Replaces doubled braces from `from` on by single ones.
fn unescape_braces(extra: &mut Vec<u8>, from: usize) {
    let mut to = from;
    let mut offset = from;
    while offset < extra.len() {
        extra[to] = extra[offset];
        offset += if matches!(extra[offset], b'{' | b'}') { 2 } else { 1 };
        to += 1;
    }
    extra.truncate(to);
}

#[cfg(test)]
mod tests;
