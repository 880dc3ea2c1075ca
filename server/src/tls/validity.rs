//! The validity of certificates: when they expire, and warnings of those that clients refuse.

use std::{
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use humantime_serde::re::humantime::format_rfc3339_seconds;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

/// Logs each certificate of a chain that is not valid now, with its place in the file and the end or the start of its validity.
pub(super) fn warn_unless_valid(file: &Path, chain: &[CertificateDer<'_>]) {
    let file = file.display();
    for (certificate, position) in chain.iter().zip(1..) {
        match validity_error(certificate, UnixTime::now()) {
            Some(Error::CertExpired { not_after, .. }) => {
                let not_after = date(not_after);
                tracing::warn!(%file, position, not_after, "the certificate has expired, so that clients refuse it");
            }
            Some(Error::CertNotValidYet { not_before, .. }) => {
                let not_before = date(not_before);
                tracing::warn!(%file, position, not_before, "the certificate is not valid yet, so that clients refuse it");
            }
            Some(_) | None => {}
        }
    }
}

/// When the first of these certificates expires, in seconds since 1970.
pub(super) fn first_expiry(certificates: &[CertificateDer<'_>]) -> Option<u64> {
    let end_of_time = UnixTime::since_unix_epoch(Duration::MAX);
    let expiries = certificates.iter().filter_map(|certificate| match validity_error(certificate, end_of_time) {
        Some(Error::CertExpired { not_after, .. }) => Some(not_after.as_secs()),
        Some(_) | None => None,
    });
    expiries.min()
}

/// The error of a verification without authorities, which checks the validity before it looks for an issuer.
fn validity_error(certificate: &CertificateDer<'_>, now: UnixTime) -> Option<Error> {
    let parsed = EndEntityCert::try_from(certificate).ok()?;
    parsed.verify_for_usage(&[], &[], &[], now, KeyUsage::server_auth(), None, None).err()
}

/// A time as `2001-01-01T00:00:00Z`.
fn date(time: UnixTime) -> String {
    format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(time.as_secs())).to_string()
}
