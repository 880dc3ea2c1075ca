//! Decodes a source as CPython does: byte order mark, PEP 263 cookie, UTF-8.

mod codecs;

use std::borrow::Cow;

use memchr::{memchr, memchr2, memchr2_iter, memmem, memrchr2};

use self::codecs::Codec;
use crate::diagnostic::{Class, Diagnostic, Position, Span};
use crate::encoding_cookie::{cookie, declared, split_line};
use crate::lexer::{Lexed, MAX_BYTES, lex_with};
use crate::tokens::{Terminal, string};
use crate::{Options, SourceType};

const BOM: &[u8] = b"\xef\xbb\xbf";

type Result<T> = std::result::Result<T, Diagnostic>;

/// Decodes a source. A source in UTF-8 is borrowed, byte order mark and carriage returns included, which
/// [`lex`](crate::lexer::lex) handles.
///
/// Before 3.14 CPython does not decode the comments of a source without a declared encoding: invalid bytes there become
/// `X`.
pub fn decode<'a>(source: &'a [u8], options: &Options) -> Result<Cow<'a, str>> {
    if source.len() > MAX_BYTES {
        let message = format!("source has {} bytes, at most {MAX_BYTES} are expected", source.len());
        return Err(Diagnostic::value(message));
    }
    if memchr(0, source).is_some() {
        return Err(null_byte_error());
    }
    if options.source_type == SourceType::Text {
        return decoded_text(source).map(Cow::Borrowed);
    }
    let marked = source.starts_with(BOM);
    match declared(if marked { &source[BOM.len()..] } else { source }) {
        None => utf8(source, *options),
        Some(name) if name == "utf-8" => utf8(source, *options),
        Some(name) if marked => Err(bom_mismatch(&source[BOM.len()..], &name, *options)),
        Some(name) => with_codec(source, &name, *options),
    }
}

/// An unusable encoding.
fn encoding_error(message: impl Into<Cow<'static, str>>) -> Diagnostic {
    Diagnostic::syntax(0, 0, message).with_span(Span::ENCODING).with_known_position()
}

/// A byte order mark together with a cookie that is not UTF-8.
#[cold]
fn bom_mismatch(source: &[u8], name: &str, options: Options) -> Diagnostic {
    let error = encoding_error(format!("encoding problem: {name} with BOM"));
    if options.feature_version < 14 {
        return error;
    }
    // From 3.14 the error has a line.
    let (first, rest) = split_line(source);
    let (number, length) = if cookie(first).is_some() { (1, first.len()) } else { (2, split_line(rest).0.len() + 1) };
    let end = i32::try_from(length).unwrap_or(i32::MAX);
    error.with_span(Span::Fixed(Position::new(number, 0, number, end))).with_known_position()
}

fn null_byte_error() -> Diagnostic {
    Diagnostic::syntax(0, 0, "source code string cannot contain null bytes").with_span(Span::NONE)
}

/// Checks a source that is decoded text.
fn decoded_text(source: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(source).map_err(|error| undecodable_text(source, error.valid_up_to()))?;
    if text.starts_with('\u{feff}') {
        let mark = Span::Fixed(Position::new(1, 1, 1, 1));
        let error = Diagnostic::syntax(0, 0, "invalid non-printable character U+FEFF").with_span(mark);
        return Err(error.with_known_position());
    }
    Ok(text)
}

/// The error of text with lone surrogates, which CPython cannot encode, or of bytes that are not UTF-8.
#[cold]
fn undecodable_text(source: &[u8], offset: usize) -> Diagnostic {
    let surrogates: Vec<u32> = source[offset..].chunks(3).map_while(surrogate).collect();
    if surrogates.is_empty() {
        return Diagnostic { class: Class::UnicodeDecode, ..Diagnostic::value(utf8_message(source, offset)) };
    }
    let before = String::from_utf8_lossy(&source[..offset]);
    let points: Vec<u32> = before.chars().map(u32::from).chain(surrogates).collect();
    Diagnostic { class: Class::UnicodeEncode, ..Diagnostic::value(surrogates_message(&points)) }
}

/// CPython's message for the first surrogates among code points.
fn surrogates_message(points: &[u32]) -> String {
    let is_surrogate = |point: &u32| (0xd800..0xe000).contains(point);
    let index = points.iter().position(is_surrogate).unwrap_or_default();
    let count = points[index..].iter().take_while(|point| is_surrogate(point)).count();
    let what = match points.get(index) {
        Some(first) if count == 1 => format!("character '\\u{first:04x}' in position {index}"),
        _ => format!("characters in position {index}-{}", index + count.max(1) - 1),
    };
    format!("'utf-8' codec can't encode {what}: surrogates not allowed")
}

/// Decodes a surrogate encoded as three bytes of generalised UTF-8.
fn surrogate(bytes: &[u8]) -> Option<u32> {
    match *bytes {
        [0xed, high @ 0xa0..=0xbf, low @ 0x80..=0xbf] => {
            Some(0xd000 | u32::from(high & 0x3f) << 6 | u32::from(low & 0x3f))
        }
        _ => None,
    }
}

fn with_codec<'a>(source: &'a [u8], name: &str, options: Options) -> Result<Cow<'a, str>> {
    let codec = Codec::named(name, options).ok_or_else(|| encoding_error(format!("unknown encoding: {name}")))?;
    if codec.is_binary() {
        let hint = "use codecs.decode() to handle arbitrary codecs";
        return Err(encoding_error(format!("'{name}' is not a text encoding; {hint}")));
    }
    let text = codec.decode(source, options).map_err(|message| encoding_error(with_declared_name(name, message)))?;
    if memchr(0, text.as_bytes()).is_some() {
        return Err(null_byte_error());
    }
    Ok(text)
}

/// Replaces the codec's name in a message by the name that the source declares.
fn with_declared_name(name: &str, message: String) -> String {
    const BEGINNING: &str = "decoding with '";
    match message.strip_prefix(BEGINNING).and_then(|rest| rest.split_once('\'')) {
        Some((_, rest)) => format!("{BEGINNING}{name}'{rest}"),
        None => message,
    }
}

fn utf8(source: &[u8], options: Options) -> Result<Cow<'_, str>> {
    std::str::from_utf8(source)
        .map_or_else(|_| decode_invalid_utf8(source, options).map(Cow::Owned), |text| Ok(Cow::Borrowed(text)))
}

/// Decodes a source with invalid UTF-8, if CPython does not reach those bytes.
#[cold]
fn decode_invalid_utf8(source: &[u8], options: Options) -> Result<String> {
    let mut text = String::with_capacity(source.len());
    let mut bad = Vec::new();
    for chunk in source.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            bad.push(text.len());
            text.extend(chunk.invalid().iter().map(|_| 'X'));
        }
    }
    let lexed = lex_with(&text, &options);
    let read_up_to = lexed.error.as_ref().map_or(text.len(), |error| error.diagnostic.start as usize);
    if options.feature_version >= 14 {
        // CPython checks each line when it reads it.
        let line = memrchr2(b'\n', b'\r', &source[..bad[0]]).map_or(0, |newline| newline + 1);
        return if line < read_up_to {
            Err(located(undeclared_encoding(source, bad[0]), &text, options))
        } else {
            Ok(text)
        };
    }
    let reached = bad.into_iter().find(|&offset| offset < read_up_to && !in_comment(&lexed, offset));
    match reached {
        Some(offset) => {
            let error = undecodable(source, &lexed, offset);
            let position = undecodable_position(source, &lexed, offset, &error, options);
            Err(Diagnostic { position, ..error })
        }
        None => Ok(text),
    }
}

fn located(mut error: Diagnostic, text: &str, options: Options) -> Diagnostic {
    error.locate(text, options);
    error
}

/// The error of a byte that is not UTF-8, from 3.14.
fn undeclared_encoding(source: &[u8], offset: usize) -> Diagnostic {
    let lines =
        memchr2_iter(b'\n', b'\r', &source[..offset]).count() - memmem::find_iter(&source[..offset], b"\r\n").count();
    let place = u32::try_from(offset).unwrap_or(u32::MAX);
    let message = format!(
        "Non-UTF-8 code starting with '\\x{:02x}' on line {}, but no encoding declared; \
         see https://peps.python.org/pep-0263/ for details",
        source[offset],
        lines + 1
    );
    Diagnostic::syntax(place, place, message)
}

fn in_comment(lexed: &Lexed, offset: usize) -> bool {
    let number = lexed.comments.partition_point(|&(_, end)| end as usize <= offset);
    lexed.comments.get(number).is_some_and(|&(start, _)| start as usize <= offset)
}

/// The error of the token with an invalid byte. CPython counts positions from where it starts to decode.
fn undecodable(source: &[u8], lexed: &Lexed, offset: usize) -> Diagnostic {
    let tokens = &lexed.tokens;
    let number = tokens.ends.partition_point(|&end| end as usize <= offset);
    let place = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
    let mut origin = offset;
    let mut span = (place(offset), place(offset));
    let mut last = source.len();
    if let Some(&start) = tokens.starts.get(number).filter(|&&start| start as usize <= offset) {
        let kind = tokens.kinds[number];
        let payload = tokens.payloads[number];
        last = tokens.ends[number] as usize;
        origin = start as usize;
        if kind == Terminal::FStringMiddle {
            // CPython raises this one as a plain `UnicodeDecodeError`.
            let message = utf8_message(&source[origin..last], offset - origin);
            let error = Diagnostic::syntax(start, tokens.ends[number], message);
            return Diagnostic { class: Class::UnicodeDecode, ..error };
        }
        if kind == Terminal::String {
            span = (start, tokens.ends[number]);
            let quotes = if payload & string::TRIPLE == 0 { 1 } else { 3 };
            origin += (payload >> string::PREFIX_SHIFT) as usize + quotes;
            last -= quotes;
            if payload & string::BYTES != 0 {
                return Diagnostic::syntax(span.0, span.1, "bytes can only contain ASCII literal characters");
            }
            if payload & string::CHANGED != 0 && payload & string::RAW == 0 {
                origin += source[origin..offset].iter().rposition(u8::is_ascii).map_or(0, |ascii| ascii + 1);
            }
        }
    }
    let message = format!("(unicode error) {}", utf8_message(&source[origin..last], offset - origin));
    Diagnostic::syntax(span.0, span.1, message)
}

/// The position of a token that CPython cannot decode. It counts characters of the line with invalid bytes replaced,
/// over the number of source bytes before the token.
fn undecodable_position(
    source: &[u8],
    lexed: &Lexed,
    position: usize,
    error: &Diagnostic,
    options: Options,
) -> Position {
    if !error.class.has_position() {
        return Position::default();
    }
    let in_bytes = options.feature_version < 13 && !source.starts_with(BOM) && declared(source).is_none();
    let place = |position: usize, more: usize| {
        let (number, line) = line_of(source, position);
        let width = position - line + more;
        let end = memchr2(b'\n', b'\r', &source[line..]).map_or(source.len(), |length| line + length);
        let read = if in_bytes { width } else { characters_read(&source[line..end], width) };
        (i32::try_from(number).unwrap_or(i32::MAX), i32::try_from(read).unwrap_or(i32::MAX))
    };
    let tokens = &lexed.tokens;
    let number = tokens.ends.partition_point(|&end| end as usize <= position);
    if tokens.kinds.get(number) != Some(&Terminal::String) {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
        let end = position + source[position..].iter().take_while(|byte| is_part(byte)).count();
        let (line, offset) = place(end, 0);
        return Position::new(line, offset, line, -1);
    }
    let is_bytes = tokens.payloads[number] & string::BYTES != 0;
    let (start, end) = if options.feature_version < 12 && !is_bytes {
        after_strings(source, lexed, number)
    } else {
        (tokens.starts[number] as usize, tokens.ends[number] as usize)
    };
    let (line, offset) = place(start, 1);
    let (end_line, end_offset) = place(end, 1);
    Position::new(line, offset, end_line, end_offset)
}

/// The range of the token after adjacent strings, which CPython has fetched by then: NEWLINE at the end of the line.
fn after_strings(source: &[u8], lexed: &Lexed, string: usize) -> (usize, usize) {
    let tokens = &lexed.tokens;
    let next = string + tokens.kinds[string..].iter().take_while(|&&kind| kind == Terminal::String).count();
    let in_line = lexed.lines.iter().any(|line| (line.first as usize + 1..line.end as usize).contains(&next));
    if in_line {
        return (tokens.starts[next] as usize, tokens.ends[next] as usize);
    }
    let end = tokens.ends[next - 1] as usize;
    let rest = &source[end..];
    let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | 0x0c)).count();
    (end + blank, end + memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()))
}

/// The number and the start of a byte's line.
fn line_of(source: &[u8], offset: usize) -> (usize, usize) {
    let before = &source[..offset];
    let pairs = memmem::find_iter(before, b"\r\n").count();
    let mark = if source.starts_with(BOM) { BOM.len() } else { 0 };
    let line = memrchr2(b'\n', b'\r', before).map_or(mark, |newline| newline + 1);
    (memchr2_iter(b'\n', b'\r', before).count() - pairs + 1, line)
}

/// The number of characters in the first `width` bytes of a line with invalid bytes replaced.
fn characters_read(line: &[u8], width: usize) -> usize {
    let replaced = String::from_utf8_lossy(line);
    let read = &replaced.as_bytes()[..width.min(replaced.len())];
    let beyond = usize::from(width > replaced.len());
    read.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() + beyond
}

/// CPython's message for bytes that are invalid UTF-8 from `offset` on.
fn utf8_message(bytes: &[u8], offset: usize) -> String {
    let rest = &bytes[offset..];
    let length =
        std::str::from_utf8(rest).err().map(|error| error.error_len().unwrap_or(rest.len() - error.valid_up_to()));
    let unfinished =
        std::str::from_utf8(rest).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none());
    let reason = match rest.first() {
        _ if unfinished => "unexpected end of data",
        Some(0xc2..=0xf4) => "invalid continuation byte",
        _ => "invalid start byte",
    };
    match length.unwrap_or(1) {
        0 | 1 => {
            format!(
                "'utf-8' codec can't decode byte {:#04x} in position {offset}: {reason}",
                rest.first().unwrap_or(&0)
            )
        }
        length => format!("'utf-8' codec can't decode bytes in position {offset}-{}: {reason}", offset + length - 1),
    }
}

#[cfg(test)]
mod tests;
