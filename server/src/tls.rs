//! TLS of the gRPC and HTTP ports, with client certificates if authorities for them are configured.

use std::{
    fmt,
    io::{self, Error},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    InconsistentKeys, RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use webpki::EndEntityCert;

use crate::{
    config::{ClientCertificates, Server, Tls},
    listen::{Listener, Opened},
    peer::{CertificateNames, Peer},
    reload::Reloadable,
};

mod validity;

/// The configuration of TLS, replaced when its files change. Open connections keep theirs.
pub(crate) type TlsConfig = Reloadable<Protocols>;

/// The configurations of the ports, which differ in the protocol that they negotiate.
pub(crate) struct Protocols {
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
    /// When the first certificate of the server's chain and of the client authorities expires, in seconds since 1970.
    pub(crate) expiries: Vec<(&'static str, u64)>,
}

/// A port with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The gRPC port, which speaks HTTP/2.
    Grpc,
    /// The HTTP port, which speaks HTTP/1.1.
    Http,
}

/// Reads the files of the settings; `None` if they ask for plaintext.
pub(crate) fn open(settings: &Tls) -> Result<Option<TlsConfig>, String> {
    if !settings.is_on() {
        return Ok(None);
    }
    let mut files = vec![settings.certificate.clone(), settings.private_key.clone()];
    if !settings.client_ca.as_os_str().is_empty() {
        files.push(settings.client_ca.clone());
    }
    let names = files.clone();
    let client_certificates = settings.client_certificates;
    Reloadable::open(files, move |contents, _| configure(&names, contents, client_certificates)).map(Some)
}

/// Makes a configuration of the contents of the files: certificate chain, private key and perhaps client authorities.
fn configure(
    files: &[PathBuf],
    contents: &[Vec<u8>],
    client_certificates: ClientCertificates,
) -> Result<Protocols, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certified = certified_key(files, contents, &provider)?;
    validity::warn_unless_valid(&files[0], &certified.cert);
    let mut expiries = vec![("server", validity::first_expiry(&certified.cert))];
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = match contents.get(2) {
        Some(authorities) => {
            let authorities = certificates(authorities).map_err(|error| in_file(&files[2], error))?;
            expiries.push(("client_ca", validity::first_expiry(&authorities)));
            let verifier = client_verifier(authorities, client_certificates, provider);
            builder.with_client_cert_verifier(verifier.map_err(|error| in_file(&files[2], error))?)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    // A resumed session would not check the client's certificate again.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let negotiating = |protocol: &[u8]| {
        let mut config = config.clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        Arc::new(config)
    };
    let expiries = expiries.into_iter().filter_map(|(certificate, expiry)| Some((certificate, expiry?))).collect();
    Ok(Protocols { grpc: negotiating(b"h2"), http: negotiating(b"http/1.1"), expiries })
}

/// The certificate chain with its private key.
fn certified_key(files: &[PathBuf], contents: &[Vec<u8>], provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let chain = certificates(&contents[0]).map_err(|error| in_file(&files[0], error))?;
    // The error might show the text in place of a key.
    let key = PrivateKeyDer::from_pem_slice(&contents[1]).map_err(|_| "expected a private key in PEM".to_owned());
    let key = key.and_then(|key| provider.key_provider.load_private_key(key).map_err(|error| error.to_string()));
    let certified = CertifiedKey::new(chain, key.map_err(|error| in_file(&files[1], error))?);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(_)) => {
            let certificate = files[0].display();
            let key = files[1].display();
            Err(format!("the private key in {key} does not belong to the certificate in {certificate}"))
        }
        Err(error) => Err(in_file(&files[0], error)),
    }
}

fn in_file(file: &Path, error: impl fmt::Display) -> String {
    format!("{}: {error}", file.display())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err("expected a certificate in PEM, got none".to_owned()),
        Err(error) => Err(format!("expected certificates in PEM: {error}")),
    }
}

fn client_verifier(
    authorities: Vec<CertificateDer<'static>>,
    client_certificates: ClientCertificates,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = match client_certificates {
        ClientCertificates::Required => verifier,
        ClientCertificates::Optional => verifier.allow_unauthenticated(),
    };
    verifier.build().map_err(|error| error.to_string())
}

/// Accepts connections with TLS.
pub(crate) struct TlsListener {
    pub(crate) tcp: TcpListener,
    pub(crate) config: Arc<TlsConfig>,
    pub(crate) port: Port,
}

impl Listener for TlsListener {
    type Raw = (std::net::TcpStream, SocketAddr, Arc<ServerConfig>);
    type Io = TlsStream<TcpStream>;

    /// Plaintext that rustls buffers to be encrypted, and a received record with its decrypted content.
    const BUFFER_BYTES: u64 = (64 + 2 * 16) << 10;

    async fn next(&self) -> io::Result<Self::Raw> {
        let (stream, address) = self.tcp.accept().await?;
        let protocols = self.config.get();
        let config = match self.port {
            Port::Grpc => &protocols.grpc,
            Port::Http => &protocols.http,
        };
        Ok((stream.into_std()?, address, Arc::clone(config)))
    }

    async fn open((stream, address, config): Self::Raw, settings: &Server) -> io::Result<Opened<Self::Io>> {
        let stream = TcpStream::from_std(stream)?;
        stream.set_nodelay(true)?;
        let handshake = timeout(settings.handshake_timeout, TlsAcceptor::from(config).accept(stream));
        let io = handshake.await.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()))?;
        let certificate = io.get_ref().1.peer_certificates().and_then(<[_]>::first).map(names).transpose()?;
        Ok(Opened { io, peer: Peer { certificate, ..Peer::at(address) } })
    }
}

/// The subject alternative names of a certificate that the handshake has verified.
fn names(certificate: &CertificateDer<'_>) -> io::Result<CertificateNames> {
    let certificate = EndEntityCert::try_from(certificate).map_err(Error::other)?;
    let owned = |name: &str| name.to_owned();
    Ok(CertificateNames {
        dns: certificate.valid_dns_names().map(owned).collect(),
        uris: certificate.valid_uri_names().map(owned).collect(),
    })
}
