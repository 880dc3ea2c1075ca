//! Certificates, principals, a daemon that uses them, and clients.

use std::{fs, io, net::SocketAddr, path::PathBuf, sync::Arc};

use accelerd::{Config, Daemon, auth::token::Token};
use accelerd_proto::v1::{
    self, embed_request::Input, embed_service_client::EmbedServiceClient,
    similarity_service_client::SimilarityServiceClient,
};
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType,
    date_time_ymd,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::{
    Code, Request, Status,
    metadata::AsciiMetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt;

/// An authority that signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key in PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// When a certificate is valid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validity {
    Now,
    Expired,
    Future,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate of a DNS name, or of a URI.
    pub(crate) fn sign(&self, name: &str, validity: Validity) -> Identity {
        let mut params = CertificateParams::new(vec![]).expect("no names");
        params.subject_alt_names = vec![if name.contains("://") {
            SanType::URI(name.try_into().expect("ascii"))
        } else {
            SanType::DnsName(name.try_into().expect("ascii"))
        }];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let years = match validity {
            Validity::Now => None,
            Validity::Expired => Some((2000, 2001)),
            Validity::Future => Some((3000, 3001)),
        };
        if let Some((from, to)) = years {
            (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// The files of a daemon, in a folder of their own.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Replaces a file in one step, as an operator or a mounted secret would.
    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        let new = self.path(&format!("{name}.new"));
        fs::write(&new, content).expect("written");
        fs::rename(&new, &path).expect("renamed");
        path
    }

    /// Writes a certificate and its key, and sets them.
    pub(crate) fn write_identity(&self, identity: &Identity, config: &mut Config) {
        config.tls.certificate = self.write("tls.crt", &identity.certificate);
        config.tls.private_key = self.write("tls.key", &identity.key);
    }
}

pub(crate) fn token() -> Token {
    Token::random().expect("random bytes")
}

/// A principal of the file with one token; `more` has further keys.
pub(crate) fn principal(name: &str, role: &str, token: &Token, more: &str) -> String {
    format!("[[principal]]\nname = {name:?}\nrole = {role:?}\ntokens = [\"{}\"]\n{more}\n", token.hash())
}

/// Adds a token to each call.
#[derive(Clone)]
pub(crate) struct Bearer(Option<AsciiMetadataValue>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

pub(crate) type Client = InterceptedService<Channel, Bearer>;

pub(crate) fn with_token(channel: &Channel, token: Option<&Token>) -> Client {
    let value = token.map(|token| format!("Bearer {}", token.reveal()).parse().expect("ascii"));
    InterceptedService::new(channel.clone(), Bearer(value))
}

pub(crate) fn embed(channel: &Channel, token: Option<&Token>) -> EmbedServiceClient<Client> {
    EmbedServiceClient::new(with_token(channel, token))
}

pub(crate) fn similarity(channel: &Channel, token: Option<&Token>) -> SimilarityServiceClient<Client> {
    SimilarityServiceClient::new(with_token(channel, token))
}

/// A connection in plaintext.
pub(crate) async fn plaintext(daemon: &Daemon) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", daemon.grpc_addr())).expect("a URI");
    endpoint.connect().await.expect("the daemon accepts connections")
}

/// A connection that trusts `authority` and presents `identity`. The server's name is `localhost`.
pub(crate) async fn encrypted(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<&Identity>,
) -> Result<Channel, tonic::transport::Error> {
    let config = Arc::new(client_config(authority, identity, b"h2"));
    let connect = tower::service_fn(move |_: http::Uri| {
        let handshake = handshake(address, Arc::clone(&config));
        async move { handshake.await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connect).await
}

/// A connection with TLS that negotiates a protocol.
pub(crate) async fn tls_stream(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<&Identity>,
    protocol: &[u8],
) -> io::Result<TlsStream<TcpStream>> {
    handshake(address, Arc::new(client_config(authority, identity, protocol))).await
}

async fn handshake(address: SocketAddr, config: Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(config).connect(name, stream).await
}

fn client_config(authority: &Authority, identity: Option<&Identity>, protocol: &[u8]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(chain, key).expect("a certificate and its key")
        }
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

pub(crate) fn one_text(model: &str) -> v1::EmbedRequest {
    let values = vec!["def parse(text): ...".to_owned()];
    let input = Some(Input::Texts(v1::TextInput { values }));
    v1::EmbedRequest { input, model: model.to_owned(), ..v1::EmbedRequest::default() }
}

pub(crate) fn new_collection(name: &str) -> v1::CreateCollectionRequest {
    let metric = v1::Metric::Cosine.into();
    v1::CreateCollectionRequest { name: name.to_owned(), dimensions: 2, metric, ..Default::default() }
}

/// The code and the reason of an error.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.expect_err("the call is refused");
    let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    (status.code(), reason)
}

pub(crate) fn refused(code: Code, reason: &str) -> (Code, String) {
    (code, reason.to_owned())
}

/// Reloads the credentials and waits until a metric says that it is done.
pub(crate) async fn reload(daemon: &Daemon, metric: &str) {
    let count = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok()).unwrap_or_default();
    let seen = || daemon.app().metrics.text().lines().filter(|line| line.starts_with(metric)).map(count).sum::<f64>();
    let before = seen();
    daemon.reload_credentials();
    while seen() <= before {
        tokio::task::yield_now().await;
    }
}
