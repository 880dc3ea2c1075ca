//! Bytes of a source to text, as CPython decodes a source that it gets as bytes: byte order mark, PEP 263, UTF-8.

mod encodings;

use std::borrow::Cow;

use memchr::{memchr, memchr2, memchr2_iter, memmem, memrchr2};

use self::encodings::Codec;
use crate::diagnostic::{Class, Diagnostic, Position, Span};
use crate::lexer::{Lexed, MOST_BYTES, lex_as};
use crate::tokens::{Terminal, string};
use crate::{Options, SourceType};

const MARK: &[u8] = b"\xef\xbb\xbf";

type Result<T> = std::result::Result<T, Diagnostic>;

/// The text of a source. A source in UTF-8 is its own text, byte order mark and carriage returns included; [`lex`](crate::lexer::lex) knows them.
///
/// Before 3.14 CPython does not decode comments of a source without a declared encoding: bytes there that are no UTF-8
/// become `X`s.
pub fn decode<'a>(source: &'a [u8], options: &Options) -> Result<Cow<'a, str>> {
    if source.len() > MOST_BYTES {
        let message = format!("source has {} bytes, at most {MOST_BYTES} are expected", source.len());
        return Err(Diagnostic::value(message));
    }
    if memchr(0, source).is_some() {
        return Err(null_bytes());
    }
    if options.source_type == SourceType::Text {
        return decoded_text(source).map(Cow::Borrowed);
    }
    let marked = source.starts_with(MARK);
    match declared(if marked { &source[MARK.len()..] } else { source }) {
        None => utf8(source, *options),
        Some(name) if name == "utf-8" => utf8(source, *options),
        Some(name) if marked => Err(unplaced(format!("encoding problem: {name} with BOM"))),
        Some(name) => with_codec(source, &name),
    }
}

/// An encoding that cannot be used.
fn unplaced(message: impl Into<Cow<'static, str>>) -> Diagnostic {
    Diagnostic::syntax(0, 0, message).with_span(Span::ENCODING).with_known_position()
}

fn null_bytes() -> Diagnostic {
    Diagnostic::syntax(0, 0, "source code string cannot contain null bytes").with_span(Span::NONE)
}

/// The text of a source that is decoded already.
fn decoded_text(source: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(source).map_err(|error| undecoded_text(source, error.valid_up_to()))?;
    if text.starts_with('\u{feff}') {
        let mark = Span::Fixed(Position::new(1, 1, 1, 1));
        let error = Diagnostic::syntax(0, 0, "invalid non-printable character U+FEFF").with_span(mark);
        return Err(error.with_known_position());
    }
    Ok(text)
}

/// What CPython says of text that it cannot encode, since it has lone surrogates, or of bytes that are no text at all.
#[cold]
fn undecoded_text(source: &[u8], at: usize) -> Diagnostic {
    let surrogates: Vec<u32> = source[at..].chunks(3).map_while(surrogate).collect();
    let Some(first) = surrogates.first() else {
        return Diagnostic { class: Class::UnicodeDecode, ..Diagnostic::value(utf8_message(source, at)) };
    };
    let position = String::from_utf8_lossy(&source[..at]).chars().count();
    let what = if surrogates.len() == 1 {
        format!("character '\\u{first:04x}' in position {position}")
    } else {
        format!("characters in position {position}-{}", position + surrogates.len() - 1)
    };
    let message = format!("'utf-8' codec can't encode {what}: surrogates not allowed");
    Diagnostic { class: Class::UnicodeEncode, ..Diagnostic::value(message) }
}

/// A surrogate as the three bytes that UTF-8 would have for it.
fn surrogate(bytes: &[u8]) -> Option<u32> {
    match *bytes {
        [0xed, high @ 0xa0..=0xbf, low @ 0x80..=0xbf] => {
            Some(0xd000 | u32::from(high & 0x3f) << 6 | u32::from(low & 0x3f))
        }
        _ => None,
    }
}

/// Whether a file declares its encoding in a comment.
pub(crate) fn declares_encoding(source: &[u8]) -> bool {
    declared(source).is_some()
}

fn with_codec<'a>(source: &'a [u8], name: &str) -> Result<Cow<'a, str>> {
    let codec = Codec::named(name).ok_or_else(|| unplaced(format!("unknown encoding: {name}")))?;
    let text = codec.decode(source).map_err(|bad| {
        // CPython has made each kind of newline a line feed by then.
        let pairs = memmem::find_iter(&source[..bad.at], b"\r\n").count();
        unplaced(bad.message(source, bad.at - pairs))
    })?;
    if memchr(0, text.as_bytes()).is_some() {
        return Err(null_bytes());
    }
    Ok(text)
}

/// The encoding that a comment in one of the first two lines names; the second counts if the first has nothing else.
fn declared(source: &[u8]) -> Option<String> {
    let (first, rest) = split_line(source);
    if let Some(name) = named_in(first) {
        return Some(name);
    }
    let begin = first.iter().find(|byte| !matches!(byte, b' ' | b'\t' | 0x0c));
    if begin.is_some_and(|&byte| byte != b'#') {
        return None;
    }
    named_in(split_line(rest).0)
}

fn split_line(source: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr2(b'\n', b'\r', source).unwrap_or(source.len());
    let rest = &source[end..];
    let behind = if rest.starts_with(b"\r\n") { 2 } else { rest.len().min(1) };
    (&source[..end], &rest[behind..])
}

fn named_in(line: &[u8]) -> Option<String> {
    let comment = line.iter().position(|byte| !matches!(byte, b' ' | b'\t' | 0x0c))?;
    if line[comment] != b'#' {
        return None;
    }
    memmem::find_iter(line, b"coding").find_map(|at| {
        let (b':' | b'=', name) = line[at + 6..].split_first()? else { return None };
        let name = &name[name.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()..];
        let word = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let name = &name[..name.iter().take_while(word).count()];
        (!name.is_empty()).then(|| usual(name))
    })
}

/// CPython spells the two commonest encodings in one way.
fn usual(name: &[u8]) -> String {
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

fn utf8(source: &[u8], options: Options) -> Result<Cow<'_, str>> {
    std::str::from_utf8(source)
        .map_or_else(|_| patched(source, options).map(Cow::Owned), |text| Ok(Cow::Borrowed(text)))
}

/// The text of a source with bytes that are no UTF-8, if CPython does not come to decode them.
#[cold]
fn patched(source: &[u8], options: Options) -> Result<String> {
    let mut text = String::with_capacity(source.len());
    let mut bad = Vec::new();
    for chunk in source.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            bad.push(text.len());
            text.extend(chunk.invalid().iter().map(|_| 'X'));
        }
    }
    let lexed = lex_as(&text, &options);
    let read_up_to = lexed.error.as_ref().map_or(text.len(), |error| error.diagnostic.start as usize);
    if options.feature_version >= 14 {
        // Each line is looked at as soon as it is read.
        let line = memrchr2(b'\n', b'\r', &source[..bad[0]]).map_or(0, |newline| newline + 1);
        return if line < read_up_to { Err(located(no_encoding(source, bad[0]), &text, options)) } else { Ok(text) };
    }
    let met = bad.into_iter().find(|&at| at < read_up_to && !in_comment(&lexed, at));
    match met {
        Some(at) => Err(located(undecodable(source, &lexed, at), &text, options)),
        None => Ok(text),
    }
}

fn located(mut error: Diagnostic, text: &str, options: Options) -> Diagnostic {
    error.locate(text, &options);
    error
}

/// What 3.14 says of a byte that is no UTF-8.
fn no_encoding(source: &[u8], at: usize) -> Diagnostic {
    let lines = memchr2_iter(b'\n', b'\r', &source[..at]).count() - memmem::find_iter(&source[..at], b"\r\n").count();
    let place = u32::try_from(at).unwrap_or(u32::MAX);
    let message = format!(
        "Non-UTF-8 code starting with '\\x{:02x}' on line {}, but no encoding declared; \
         see https://peps.python.org/pep-0263/ for details",
        source[at],
        lines + 1
    );
    Diagnostic::syntax(place, place, message)
}

fn in_comment(lexed: &Lexed, at: usize) -> bool {
    let number = lexed.comments.partition_point(|&(_, end)| end as usize <= at);
    lexed.comments.get(number).is_some_and(|&(start, _)| start as usize <= at)
}

/// The error of the token that has a bad byte: CPython counts from where it begins to decode.
fn undecodable(source: &[u8], lexed: &Lexed, at: usize) -> Diagnostic {
    let tokens = &lexed.tokens;
    let number = tokens.ends.partition_point(|&end| end as usize <= at);
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let (mut origin, mut span, mut last) = (at, (place(at), place(at)), source.len());
    if let Some(&start) = tokens.starts.get(number).filter(|&&start| start as usize <= at) {
        let (kind, payload) = (tokens.kinds[number], tokens.payloads[number]);
        last = tokens.ends[number] as usize;
        origin = start as usize;
        if kind == Terminal::FStringMiddle {
            // CPython forgets to make this an error of syntax.
            let message = utf8_message(&source[origin..last], at - origin);
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
                origin += source[origin..at].iter().rposition(u8::is_ascii).map_or(0, |ascii| ascii + 1);
            }
        }
    }
    let message = format!("(unicode error) {}", utf8_message(&source[origin..last], at - origin));
    Diagnostic::syntax(span.0, span.1, message)
}

/// CPython's words for bytes that are no UTF-8 from a place on.
fn utf8_message(bytes: &[u8], at: usize) -> String {
    let rest = &bytes[at..];
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
            format!("'utf-8' codec can't decode byte {:#04x} in position {at}: {reason}", rest.first().unwrap_or(&0))
        }
        length => format!("'utf-8' codec can't decode bytes in position {at}-{}: {reason}", at + length - 1),
    }
}

#[cfg(test)]
mod tests;
