//! Control characters in logs are escaped: texts of callers would otherwise act on the terminal of whoever reads the log, or forge lines.

use std::{
    fmt::{self, Write as _},
    io,
};

use tracing_subscriber::{
    field::MakeExt,
    fmt::format::{FormatFields, Writer, debug_fn},
};

/// Writes `message key=value key=value` as the default format does, but without a control character in it.
pub(super) fn visible() -> impl for<'writer> FormatFields<'writer> {
    let write = |writer: &mut Writer<'_>, field: &tracing::field::Field, value: &dyn fmt::Debug| {
        match (field.name(), writer.has_ansi_escapes()) {
            ("message", _) => {}
            (name, true) => write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
            (name, false) => write!(writer, "{name}=")?,
        }
        write!(Escaped(writer), "{value:?}")
    };
    debug_fn(write).delimited(" ")
}

/// Escapes what acts on a terminal or on the order of the text around it, or ends a line.
struct Escaped<'a, 'w>(&'a mut Writer<'w>);

impl fmt::Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| {
            if is_hidden(c) { write!(self.0, "{}", c.escape_default()) } else { self.0.write_char(c) }
        })
    }
}

fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes lines of JSON. Its strings have no ASCII control character; this escapes the others.
pub(super) struct VisibleJson<W>(pub(super) W);

impl<W: io::Write> io::Write for VisibleJson<W> {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let mut visible = String::with_capacity(lines.len());
        for c in String::from_utf8_lossy(lines).chars() {
            if c != '\n' && is_hidden(c) {
                // Each of these is one unit of UTF-16.
                let _ = write!(visible, "\\u{:04x}", u32::from(c));
            } else {
                visible.push(c);
            }
        }
        self.0.write_all(visible.as_bytes())?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex, MutexGuard},
    };

    use tracing_subscriber::{fmt::MakeWriter, layer::SubscriberExt, registry};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    struct Guard<'a>(MutexGuard<'a, Vec<u8>>);

    impl io::Write for Guard<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Written {
        type Writer = Guard<'a>;

        fn make_writer(&'a self) -> Guard<'a> {
            Guard(self.0.lock().expect("no panic"))
        }
    }

    /// Returns the lines that `log` logs.
    fn logged(ansi: bool, log: impl FnOnce()) -> String {
        let written = Written::default();
        let lines = tracing_subscriber::fmt::layer().with_writer(written.clone()).with_ansi(ansi).fmt_fields(visible());
        tracing::subscriber::with_default(registry().with(lines), log);
        String::from_utf8(written.0.lock().expect("no panic").clone()).expect("text")
    }

    #[test]
    fn a_line_has_its_message_and_fields() {
        let line = logged(false, || tracing::info!(count = 3, text = "a b", shown = %"a b", "it happened"));
        assert!(line.ends_with(" it happened count=3 text=\"a b\" shown=a b\n"), "{line}");
    }

    #[test]
    fn texts_of_callers_have_no_effect_on_a_terminal() {
        let hostile = "a\x1b]0;title\x07\u{9b}31m\r\nforged \u{202e}line\u{2028}";
        let error = io::Error::other(hostile);
        let log = || {
            let span = tracing::info_span!("call", name = hostile, shown = %hostile);
            let _entered = span.enter();
            tracing::info!(text = hostile, shown = %hostile, debug = ?hostile, %error, "message {hostile}");
        };
        for ansi in [false, true] {
            let all = logged(ansi, log);
            let line = all.strip_suffix('\n').expect("a line");
            let own = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[32m"];
            let rest = own.iter().fold(line.to_owned(), |rest, style| rest.replace(style, ""));
            assert!(rest.chars().all(|c| !c.is_control() && !('\u{2028}'..='\u{202e}').contains(&c)), "{rest:?}");
            assert_eq!(rest.matches("\\u{1b}]0;title").count(), 7, "{rest}");
        }
    }

    #[test]
    fn lines_of_json_show_control_characters_and_keep_their_values() {
        let mut written = vec![];
        let text = "name \u{7f}\u{9b}31m\u{202e} \u{1f600}";
        let line = format!("{}\n", serde_json::json!({ "text": text }));
        io::Write::write_all(&mut VisibleJson(&mut written), line.as_bytes()).expect("memory");
        let visible = String::from_utf8(written).expect("text");
        assert_eq!(visible, "{\"text\":\"name \\u007f\\u009b31m\\u202e \u{1f600}\"}\n");
        let read: serde_json::Value = serde_json::from_str(&visible).expect("JSON");
        assert_eq!(read["text"], text);
    }
}
