//! Bearer tokens, and where a client may send one.

use std::{fmt, net::IpAddr};

use tonic::{
    metadata::{Ascii, MetadataValue},
    transport::Uri,
};

use crate::{Error, Result};

/// Metadata key of the token.
pub(crate) const KEY: &str = "authorization";

/// A bearer token.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// Value of the `authorization` metadata. It is marked as sensitive: Debug output hides it, and HPACK does not index it.
    pub(crate) fn metadata(&self) -> Result<MetadataValue<Ascii>> {
        let is_token = !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic());
        let value = is_token.then(|| format!("Bearer {}", self.0).parse().ok()).flatten();
        let mut value: MetadataValue<Ascii> = value
            .ok_or_else(|| Error::Credentials("token: expected visible ASCII characters without spaces".to_owned()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(..)")
    }
}

/// Returns true if nobody on the network can read messages to an address: it has TLS or is on this machine.
pub(crate) fn is_private(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let is_loopback = || {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
    };
    uri.scheme_str() != Some("http") || is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_token() {
        let token = Token::new("s3cret".into());
        let shown = format!("{token:?} {:?}", token.metadata().expect("it is valid"));
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_token_that_no_header_can_hold_is_refused_without_showing_it() {
        for bad in ["", "two words", "s3cret\n", "sécret"] {
            let error = Token::new(bad.into()).metadata().expect_err("it is invalid").to_string();
            assert_eq!(error, "token: expected visible ASCII characters without spaces", "{bad:?}");
        }
    }

    #[test]
    fn only_plaintext_to_another_machine_is_public() {
        let is_private = |url: &str| is_private(&url.parse().expect("a URI"));
        for private in ["https://10.0.0.1:1", "http://localhost:1", "http://127.8.0.1:1", "http://[::1]:1"] {
            assert!(is_private(private), "{private}");
        }
        for public in ["http://10.0.0.1:1", "http://localhost.example.com:1", "http://0.0.0.0:1", "http://[fe80::1]:1"]
        {
            assert!(!is_private(public), "{public}");
        }
    }
}
