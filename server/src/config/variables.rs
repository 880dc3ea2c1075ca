//! Environment variables of settings: those that are not UTF-8, and those whose name is nearly one.

use std::{collections::BTreeSet, ffi::OsString};

const PREFIX: &str = "ACCELERD__";

/// The process's environment variables that are valid UTF-8.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// A variable, and what is wrong with it.
pub(super) type Refused = (String, String);

/// The variables of settings that are not UTF-8. They would be ignored.
pub(super) fn unreadable(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<Refused> {
    let is_setting = |name: &str| name.to_ascii_uppercase().starts_with(PREFIX);
    let found = variables.into_iter().filter(|(name, value)| name.to_str().is_none() || value.to_str().is_none());
    let named = found.map(|(name, value)| (name.to_string_lossy().into_owned(), value));
    let settings = named.filter(|(name, _)| is_setting(name));
    settings.map(|(name, value)| (name, format!("expected UTF-8, got {:?}", value.to_string_lossy()))).collect()
}

/// The variables that are named almost as a setting is. They would be ignored, or be unknown settings.
pub(super) fn misspelt<'a>(names: impl IntoIterator<Item = &'a str>, settings: &BTreeSet<String>) -> Vec<Refused> {
    names.into_iter().filter_map(|name| correction(name, settings)).collect()
}

fn correction(name: &str, settings: &BTreeSet<String>) -> Option<Refused> {
    let upper = name.to_ascii_uppercase();
    let rest = upper.strip_prefix("ACCELERD_")?;
    let words = |text: &str| text.trim_matches('_').replace("__", "_").replace('.', "_").to_ascii_lowercase();
    let meant = settings.iter().find(|key| words(key) == words(rest));
    let variable = meant.map(|key| format!("{PREFIX}{}", key.replace('.', "__").to_ascii_uppercase()));
    // Other variables of the project have one underscore between all words.
    let is_near = match rest.strip_prefix('_') {
        Some(path) => {
            path.split("__").any(str::is_empty) || variable.as_ref().is_some_and(|variable| *variable != upper)
        }
        None => rest.contains("__"),
    };
    is_near.then(|| {
        let expected = variable.unwrap_or_else(|| format!("a name such as {PREFIX}SERVER__LISTEN"));
        (name.to_owned(), format!("expected {expected}, with two underscores after each word of its path"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> BTreeSet<String> {
        ["server.listen", "server.admin_listen", "models.hub.cache", "cuda.library_path"].map(str::to_owned).into()
    }

    fn corrected(name: &str) -> Option<String> {
        misspelt([name], &settings()).pop().map(|(_, reason)| reason)
    }

    #[test]
    fn a_missing_underscore_is_named_with_the_variable_that_is_meant() {
        for (name, meant) in [
            ("ACCELERD_SERVER__LISTEN", "ACCELERD__SERVER__LISTEN"),
            ("ACCELERD__SERVER_LISTEN", "ACCELERD__SERVER__LISTEN"),
            ("accelerd_server__admin_listen", "ACCELERD__SERVER__ADMIN_LISTEN"),
            ("ACCELERD__SERVER__ADMIN__LISTEN", "ACCELERD__SERVER__ADMIN_LISTEN"),
            ("ACCELERD__MODELS_HUB__CACHE", "ACCELERD__MODELS__HUB__CACHE"),
            ("ACCELERD_NOTHING__OF_THIS", "a name such as ACCELERD__SERVER__LISTEN"),
            ("ACCELERD__", "a name such as ACCELERD__SERVER__LISTEN"),
            ("ACCELERD__SERVER__LISTEN__", "ACCELERD__SERVER__LISTEN"),
            ("ACCELERD__SERVER____LISTEN", "a name such as ACCELERD__SERVER__LISTEN"),
            ("ACCELERD__SERVER__", "a name such as ACCELERD__SERVER__LISTEN"),
        ] {
            let reason = corrected(name).unwrap_or_default();
            assert!(reason.starts_with(&format!("expected {meant}, with two underscores")), "{name}: {reason}");
        }
    }

    #[test]
    fn other_variables_are_left_alone() {
        for name in [
            "ACCELERD__SERVER__LISTEN",
            "accelerd__server__listen",
            "ACCELERD__SERVER__UNKNOWN",
            "ACCELERD_SERVER",
            "ACCELERD_TLS_CA",
            "ACCELERD_CUDA_LIBRARY_PATH",
            "ACCELERD_PORT_7433_TCP_ADDR",
            "SERVER__LISTEN",
        ] {
            assert_eq!(corrected(name), None, "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_not_utf_8_is_named() {
        use std::os::unix::ffi::OsStringExt;

        let odd = || OsString::from_vec(b"/data/\xff".to_vec());
        let variables = [
            (OsString::from("ACCELERD__STORE__DATA_DIR"), odd()),
            (OsString::from("ACCELERD__SERVER__LISTEN"), OsString::from("127.0.0.1:1")),
            (OsString::from("OTHER"), odd()),
        ];
        let errors = unreadable(variables);
        let reason = "expected UTF-8, got \"/data/\u{fffd}\"".to_owned();
        assert_eq!(errors, [("ACCELERD__STORE__DATA_DIR".to_owned(), reason)]);
    }
}
