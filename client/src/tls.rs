//! TLS: which daemon a client trusts, and the certificate that it presents.

use std::{fmt, fs, path::PathBuf};

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::{Error, Result};

/// PEM text, or the file that holds it. A file is read when the client connects.
#[derive(Clone)]
pub enum Pem {
    /// The text.
    Text(Vec<u8>),
    /// Path of the file.
    File(PathBuf),
}

impl Pem {
    /// Reads the text, which must contain a block with this label.
    fn read(&self, option: &str, label: &str) -> Result<Vec<u8>> {
        let (text, origin) = match self {
            Self::Text(text) => (text.clone(), String::new()),
            Self::File(path) => {
                let failed = |error| Error::Credentials(format!("{option}: cannot read {}: {error}", path.display()));
                (fs::read(path).map_err(failed)?, format!(" in {}", path.display()))
            }
        };
        let end = format!("{label}-----");
        if text.windows(end.len()).any(|window| window == end.as_bytes()) {
            Ok(text)
        } else {
            Err(Error::Credentials(format!("{option}: expected PEM with a {}{origin}", label.to_lowercase())))
        }
    }
}

/// Hides the text: it may be a private key.
impl fmt::Debug for Pem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => out.write_str("Text(..)"),
            Self::File(path) => out.debug_tuple("File").field(path).finish(),
        }
    }
}

/// TLS settings of a client. By default it trusts the certificate authorities of the operating system and presents no
/// certificate.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    ca: Option<Pem>,
    identity: Option<(Pem, Pem)>,
    server_name: Option<String>,
}

impl Tls {
    /// Trusts these certificate authorities instead of those of the operating system.
    #[must_use]
    pub fn ca(mut self, certificates: Pem) -> Self {
        self.ca = Some(certificates);
        self
    }

    /// Presents a client certificate, with the chain to its authority, for daemons that verify their clients (mTLS).
    #[must_use]
    pub fn client_certificate(mut self, certificate: Pem, private_key: Pem) -> Self {
        self.identity = Some((certificate, private_key));
        self
    }

    /// Expects this name in the daemon's certificate instead of the host of the address.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Reads all files.
    pub(crate) fn config(&self) -> Result<ClientTlsConfig> {
        let mut config = ClientTlsConfig::new();
        config = match &self.ca {
            Some(ca) => config.ca_certificate(Certificate::from_pem(ca.read("CA certificates", "CERTIFICATE")?)),
            None => config.with_native_roots(),
        };
        if let Some((certificate, private_key)) = &self.identity {
            let certificate = certificate.read("client certificate", "CERTIFICATE")?;
            let private_key = private_key.read("client key", "PRIVATE KEY")?;
            config = config.identity(Identity::from_pem(certificate, private_key));
        }
        if let Some(name) = &self.server_name {
            config = config.domain_name(name);
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";

    fn text(pem: &str) -> Pem {
        Pem::Text(pem.into())
    }

    fn reason(tls: &Tls) -> String {
        tls.config().expect_err("it is invalid").to_string()
    }

    #[test]
    fn debug_output_hides_keys() {
        let tls = Tls::default().client_certificate(Pem::File("a.pem".into()), text(KEY)).server_name("a");
        let shown = format!("{tls:?}");
        assert!(!shown.contains("c2VjcmV0") && !shown.contains(&format!("{:?}", KEY.as_bytes())), "{shown}");
        assert!(shown.contains("a.pem"), "{shown}");
    }

    #[test]
    fn files_that_are_missing_or_no_pem_are_named() {
        let missing = Tls::default().ca(Pem::File("/nowhere/ca.pem".into()));
        assert!(reason(&missing).starts_with("CA certificates: cannot read /nowhere/ca.pem: "), "{}", reason(&missing));
        let empty = Tls::default().ca(text(KEY));
        assert_eq!(reason(&empty), "CA certificates: expected PEM with a certificate");
        let swapped = Tls::default().client_certificate(text("-----BEGIN CERTIFICATE-----"), text("no key"));
        assert_eq!(reason(&swapped), "client key: expected PEM with a private key");
    }
}
