//! The syntax of `telemetry.log_level`: a level, or a filter as tracing's `EnvFilter` reads it.

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// Parses a level or a filter. A bare level applies to accelerd; libraries log from `warn` on.
pub(crate) fn log_filter(text: &str) -> Result<EnvFilter, String> {
    if is_level(text) {
        // h2 logs a warning for each flooding peer; the daemon's own warning is rate-limited.
        return EnvFilter::try_new(format!("warn,h2=error,accelerd={text}")).map_err(|error| error.to_string());
    }
    // `EnvFilter` would read an unknown word as a module and enable all of its events.
    if let Some(wrong) = directives(text).find(|directive| !is_directive(directive)) {
        return Err(format!("{wrong:?} is neither a level nor TARGET=LEVEL"));
    }
    EnvFilter::try_new(text).map_err(|error| error.to_string())
}

fn is_level(word: &str) -> bool {
    // `LevelFilter` also reads numbers.
    word.parse::<LevelFilter>().is_ok() && word.bytes().all(|byte| byte.is_ascii_alphabetic()) && !word.is_empty()
}

/// Splits a filter at the commas outside of brackets.
fn directives(filter: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0u32;
    filter.split(move |c: char| {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn is_directive(directive: &str) -> bool {
    is_level(directive.trim())
        || directive.trim().rsplit_once('=').is_some_and(|(target, level)| !target.is_empty() && is_level(level))
}
