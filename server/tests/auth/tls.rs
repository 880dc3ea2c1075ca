//! TLS and client certificates.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use accelerd::{Config, Daemon, StartError, config::ClientCertificates};
use tokio::io::AsyncReadExt as _;
use tonic::Code;

use crate::harness::{
    Authority, Files, Identity, Validity, embed, encrypted, one_text, principal, refusal, refused, reload, token,
};

/// A daemon with TLS.
struct Fixture {
    daemon: Daemon,
    authority: Authority,
    files: Files,
}

async fn start(change: impl FnOnce(&Files, &Authority, &mut Config)) -> Fixture {
    let files = Files::new();
    let authority = Authority::new();
    let mut config = Config::loopback();
    files.write_identity(&authority.sign("localhost", Validity::Now), &mut config);
    change(&files, &authority, &mut config);
    let daemon = Daemon::start(config).await.expect("the daemon starts");
    Fixture { daemon, authority, files }
}

/// A daemon whose only principal presents certificates.
async fn start_with_certificates(client_certificates: ClientCertificates) -> Fixture {
    start(|files, authority, config| {
        config.tls.client_ca = files.write("ca.crt", &authority.pem());
        config.tls.client_certificates = client_certificates;
        let file = "[[principal]]\nname = \"pipeline\"\nrole = \"read\"\n\
                    certificate_names = [\"spiffe://cluster/pipeline\", \"*.pipeline.svc\"]\n";
        config.auth.principals = files.write("principals.toml", file);
    })
    .await
}

impl Fixture {
    /// Connects and calls; a failed handshake counts as UNAVAILABLE.
    async fn call(&self, identity: Option<&Identity>) -> Result<(), tonic::Status> {
        let connected = encrypted(self.daemon.grpc_addr(), &self.authority, identity).await;
        let channel = connected.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
        embed(&channel, None).embed(one_text("")).await.map(drop)
    }

    fn sign(&self, name: &str) -> Identity {
        self.authority.sign(name, Validity::Now)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_encrypted_and_plaintext_is_not_answered() {
    let fixture = start(|_, _, _| {}).await;
    fixture.call(None).await.expect("an answer over TLS");
    let unknown = Authority::new();
    assert!(encrypted(fixture.daemon.grpc_addr(), &unknown, None).await.is_err(), "the client checks the certificate");
    let plaintext = tonic::transport::Endpoint::from_shared(format!("http://{}", fixture.daemon.grpc_addr()));
    let plaintext = plaintext.expect("a URI").connect_lazy();
    assert!(embed(&plaintext, None).embed(one_text("")).await.is_err());
    fixture.daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_known_by_the_names_of_its_certificate() {
    let fixture = start_with_certificates(ClientCertificates::Required).await;
    for name in ["spiffe://cluster/pipeline", "worker-1.pipeline.svc"] {
        fixture.call(Some(&fixture.sign(name))).await.expect(name);
    }
    for name in ["spiffe://cluster/other", "pipeline.svc", "a.b.pipeline.svc", "*.pipeline.svc"] {
        let refusal = refusal(fixture.call(Some(&fixture.sign(name))).await);
        assert_eq!(refusal, refused(Code::Unauthenticated, "WRONG_CREDENTIALS"), "{name}");
    }
    fixture.daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_unknown_and_missing_client_certificates_fail_the_handshake() {
    let fixture = start_with_certificates(ClientCertificates::Required).await;
    let name = "spiffe://cluster/pipeline";
    let expired = fixture.authority.sign(name, Validity::Expired);
    let unknown = Authority::new().sign(name, Validity::Now);
    for identity in [Some(&expired), Some(&unknown), None] {
        let (code, reason) = refusal(fixture.call(identity).await);
        assert!(matches!(code, Code::Cancelled | Code::Unavailable | Code::Unknown), "{code:?}");
        assert_eq!(reason, "", "the call did not reach the services");
    }
    fixture.call(Some(&fixture.sign(name))).await.expect("a valid certificate");
    fixture.daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_optional_client_certificate_leaves_the_choice_of_a_token() {
    let bearer = token();
    let fixture = start_with_certificates(ClientCertificates::Optional).await;
    assert_eq!(refusal(fixture.call(None).await), refused(Code::Unauthenticated, "NO_CREDENTIALS"));
    fixture.files.write("principals.toml", &principal("a", "read", &bearer, ""));
    reload(&fixture.daemon, "accelerd_principals_reloads_total").await;
    let channel = encrypted(fixture.daemon.grpc_addr(), &fixture.authority, None).await.expect("a connection");
    embed(&channel, Some(&bearer)).embed(one_text("")).await.expect("a token over TLS");
    fixture.daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_replaced_under_load_without_a_failed_call() {
    let fixture = start(|_, _, _| {}).await;
    let stop = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicUsize::new(0));
    let address = fixture.daemon.grpc_addr();
    let authority = Arc::new(fixture.authority);
    let mut callers = vec![];
    for reconnects in [true, true, false] {
        let stop = Arc::clone(&stop);
        let calls = Arc::clone(&calls);
        let authority = Arc::clone(&authority);
        callers.push(tokio::spawn(async move {
            let mut channel = encrypted(address, &authority, None).await.expect("a connection");
            while !stop.load(Relaxed) {
                if reconnects {
                    channel = encrypted(address, &authority, None).await.expect("a connection");
                }
                embed(&channel, None).embed(one_text("")).await.expect("an answer");
                calls.fetch_add(1, Relaxed);
            }
        }));
    }
    for _ in 0..5 {
        let new = authority.sign("localhost", Validity::Now);
        // Until both files are replaced, certificate and key do not match, and the old pair stays in use.
        fixture.files.write("tls.crt", &new.certificate);
        reload(&fixture.daemon, "accelerd_tls_reloads_total{outcome=\"failed\"}").await;
        fixture.files.write("tls.key", &new.key);
        reload(&fixture.daemon, "accelerd_tls_reloads_total{outcome=\"ok\"}").await;
        let before = calls.load(Relaxed);
        while calls.load(Relaxed) < before + 6 {
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Relaxed);
    for caller in callers {
        caller.await.expect("no call failed");
    }
    fixture.daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_new_certificate_keeps_the_old() {
    let fixture = start(|_, _, _| {}).await;
    for bad in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        fixture.files.write("tls.crt", bad);
        reload(&fixture.daemon, "accelerd_tls_reloads_total{outcome=\"failed\"}").await;
        fixture.call(None).await.expect("the old certificate");
    }
    let authority = Authority::new();
    let new = authority.sign("localhost", Validity::Now);
    fixture.files.write("tls.key", &new.key);
    fixture.files.write("tls.crt", &new.certificate);
    reload(&fixture.daemon, "accelerd_tls_reloads_total{outcome=\"ok\"}").await;
    assert!(fixture.call(None).await.is_err(), "the old authority did not sign the new certificate");
    let channel = encrypted(fixture.daemon.grpc_addr(), &authority, None).await.expect("the new certificate");
    embed(&channel, None).embed(one_text("")).await.expect("an answer");
    fixture.daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_say_when_certificates_expire() {
    let fixture = start_with_certificates(ClientCertificates::Required).await;
    let expiry = |certificate: &str| {
        let metrics = fixture.daemon.app().metrics.text();
        let prefix = format!("accelerd_tls_certificate_expiry_timestamp_seconds{{certificate={certificate:?}}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&prefix)).expect("it is shown").parse::<u64>()
    };
    // 4096-01-01, rcgen's default.
    assert_eq!((expiry("server"), expiry("client_ca")), (Ok(67_090_118_400), Ok(67_090_118_400)));
    let chain = [Validity::Future, Validity::Expired].map(|validity| fixture.authority.sign("localhost", validity));
    fixture.files.write("tls.key", &chain[0].key);
    fixture.files.write("tls.crt", &chain.each_ref().map(|identity| identity.certificate.as_str()).concat());
    reload(&fixture.daemon, "accelerd_tls_reloads_total{outcome=\"ok\"}").await;
    assert_eq!(expiry("server"), Ok(978_307_200), "the first of the chain, on 2001-01-01");
    fixture.daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_cannot_be_used_fails_the_start_by_file() {
    let files = Files::new();
    let authority = Authority::new();
    let mut config = Config::loopback();
    files.write_identity(&authority.sign("localhost", Validity::Now), &mut config);
    let valid_key = config.tls.private_key.clone();
    config.tls.private_key = files.write("other.key", &authority.sign("localhost", Validity::Now).key);
    let mismatch = Daemon::start(config.clone()).await.map(drop).expect_err("the key of another certificate");
    let key = config.tls.private_key.display();
    let certificate = config.tls.certificate.display();
    let expected = format!("the private key in {key} does not belong to the certificate in {certificate}");
    assert!(matches!(&mismatch, StartError::Tls(reason) if *reason == expected), "{mismatch}");
    config.tls.private_key = files.path("missing.key");
    let missing = Daemon::start(config.clone()).await.map(drop).expect_err("no key").to_string();
    assert!(missing.contains("missing.key"), "{missing}");
    config.tls.private_key = valid_key;
    config.tls.client_ca = files.write("ca.crt", "nothing");
    let no_authority = Daemon::start(config).await.map(drop).expect_err("no authority").to_string();
    assert!(no_authority.contains("ca.crt"), "{no_authority}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_does_not_finish_the_handshake_is_closed() {
    let fixture = start(|_, _, config| config.server.handshake_timeout = Duration::from_millis(50)).await;
    let mut silent = tokio::net::TcpStream::connect(fixture.daemon.grpc_addr()).await.expect("a connection");
    let end = silent.read(&mut [0; 64]).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    fixture.call(None).await.expect("others are served");
    fixture.daemon.shutdown().await;
}
