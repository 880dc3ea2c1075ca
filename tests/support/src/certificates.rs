//! Certificates of a throwaway authority.

use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// Numbers the authorities: verifiers look them up by name.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct CertifiedKey {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub private_key: String,
}

/// An authority with a server and a client certificate.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority's certificate, as PEM.
    pub ca: String,
    /// Certificate of a server at `localhost` and 127.0.0.1.
    pub server: CertifiedKey,
    /// Certificate of a client with the name `client.test`.
    pub client: CertifiedKey,
}

impl Certificates {
    /// Creates an authority and its certificates.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let name = format!("test authority {}", COUNT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("ring has entropy");
        let ca = params.self_signed(&key).expect("the parameters are valid").pem();
        let issuer = Issuer::new(params, key);
        let server = issued(&issuer, &["localhost", "127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth);
        let client = issued(&issuer, &["client.test"], ExtendedKeyUsagePurpose::ClientAuth);
        Self { ca, server, client }
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}

fn issued(issuer: &Issuer<'_, KeyPair>, names: &[&str], usage: ExtendedKeyUsagePurpose) -> CertifiedKey {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("the names are valid");
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate().expect("ring has entropy");
    let certificate = params.signed_by(&key, issuer).expect("the parameters are valid");
    CertifiedKey { certificate: certificate.pem(), private_key: key.serialize_pem() }
}
