//! Hides credentials in settings before they are shown.

use super::settings::Config;

impl Config {
    /// A copy without credentials in URLs, for display.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut redacted = self.clone();
        redacted.store.snapshot_url = without_credentials(&self.store.snapshot_url);
        redacted.store.snapshot_folders.iter_mut().for_each(|url| *url = without_credentials(url));
        redacted.models.hub.endpoint = without_credentials(&self.models.hub.endpoint);
        redacted.telemetry.otlp_endpoint = without_credentials(&self.telemetry.otlp_endpoint);
        redacted
    }
}

/// A URL without user and password.
pub(super) fn without_credentials(text: &str) -> String {
    match url::Url::parse(text) {
        Ok(mut url) if !url.username().is_empty() || url.password().is_some() => {
            let redacted = url.set_username("redacted").and_then(|()| url.set_password(None));
            if redacted.is_ok() { url.to_string() } else { "redacted".to_owned() }
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_urls_are_not_shown() {
        let mut config = Config::default();
        config.store.snapshot_url = "s3://key:secret@bucket/folder".to_owned();
        assert!(!config.redacted().store.snapshot_url.contains("secret"));
    }
}
