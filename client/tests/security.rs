//! Tests of TLS and tokens against a fake daemon that serves TLS.

use accelerd_client::{Builder, Client, Code, Error, Pem, RetryPolicy, Tls};
use accelerd_test_support::{Certificates, CertifiedKey, ClientCertificates, FakeDaemon};
use futures::TryStreamExt;

fn text(pem: &str) -> Pem {
    Pem::Text(pem.into())
}

fn trusting(certificates: &Certificates) -> Tls {
    Tls::default().ca(text(&certificates.ca))
}

fn presenting(tls: Tls, key: &CertifiedKey) -> Tls {
    tls.client_certificate(text(&key.certificate), text(&key.private_key))
}

async fn served(client_certificates: ClientCertificates) -> (FakeDaemon, Certificates, String) {
    let fake = FakeDaemon::default();
    let certificates = Certificates::new();
    let address = fake.listen_tls(&certificates, client_certificates).await;
    (fake, certificates, format!("https://localhost:{}", address.port()))
}

/// The message of an error in connecting or in the first call.
async fn failure(builder: Builder) -> String {
    let builder = builder.retry(RetryPolicy::NEVER);
    match builder.connect().await {
        Err(error) => error.to_string(),
        Ok(client) => client.models().await.expect_err("the daemon refuses it").to_string(),
    }
}

#[tokio::test]
async fn a_daemon_is_verified_by_its_authority_and_name() {
    let (_fake, certificates, url) = served(ClientCertificates::Ignored).await;
    let client = Client::builder(&url).tls(trusting(&certificates)).connect().await.expect("it is trusted");
    assert!(client.health("").await.expect("it answers"));
    let lazy = Client::builder(&url).tls(trusting(&certificates)).connect_lazy().expect("the settings are valid");
    assert!(lazy.health("").await.expect("it answers"));

    let by_address = url.replace("localhost", "127.0.0.1");
    let client = Client::builder(by_address).tls(trusting(&certificates)).connect().await.expect("it has this address");
    assert!(client.health("").await.expect("it answers"));
}

#[tokio::test]
async fn an_unknown_authority_or_another_name_fails_the_connection_with_the_reason() {
    let (_fake, certificates, url) = served(ClientCertificates::Ignored).await;
    let untrusted = Client::builder(&url).tls(trusting(&Certificates::new())).connect().await.expect_err("untrusted");
    assert!(matches!(&untrusted, Error::Connect { reason, .. } if reason.contains("UnknownIssuer")), "{untrusted}");
    let defaults = failure(Client::builder(&url)).await;
    assert!(defaults.contains("UnknownIssuer") || defaults.contains("no native certs"), "{defaults}");

    let named = |name: &str| Client::builder(&url).tls(trusting(&certificates).server_name(name));
    let other = failure(named("db.example.com")).await;
    assert!(other.contains("not valid for name \"db.example.com\""), "{other}");
    assert!(named("localhost").connect().await.is_ok());
}

#[tokio::test]
async fn a_daemon_that_requires_certificates_accepts_only_those_of_its_authority() {
    let (_fake, certificates, url) = served(ClientCertificates::Required).await;
    let builder = |tls: Tls| Client::builder(&url).tls(tls);
    let known = presenting(trusting(&certificates), &certificates.client);
    assert!(builder(known).connect().await.expect("it connects").models().await.is_ok());

    let none = failure(builder(trusting(&certificates))).await;
    assert!(none.contains("CertificateRequired"), "{none}");
    let unknown = failure(builder(presenting(trusting(&certificates), &Certificates::new().client))).await;
    assert!(unknown.contains("alert"), "{unknown}");
}

#[tokio::test]
async fn certificates_that_do_not_match_their_key_are_refused_before_connecting() {
    let (_fake, certificates, url) = served(ClientCertificates::Ignored).await;
    let mixed = CertifiedKey {
        certificate: certificates.client.certificate.clone(),
        private_key: certificates.server.private_key.clone(),
    };
    let builder = Client::builder(&url).tls(presenting(trusting(&certificates), &mixed));
    let error = builder.connect().await.expect_err("the key is another's");
    assert!(matches!(error, Error::Credentials(_)), "{error:?}");
}

#[tokio::test]
async fn a_token_accompanies_every_kind_of_call() {
    let (fake, certificates, url) = served(ClientCertificates::Ignored).await;
    fake.state().token = Some("s3cret");
    let builder = Client::builder(&url).tls(trusting(&certificates)).token("s3cret");
    let client = builder.connect().await.expect("it connects");
    assert_eq!(client.embed(["a"]).await.expect("unary").vectors.rows(), 1);
    let samples = client.watch(std::time::Duration::from_secs(1)).await.expect("server streaming");
    assert_eq!(samples.try_collect::<Vec<_>>().await.expect("it ends well").len(), 2);
    let batches = futures::stream::iter([vec!["a".to_owned()]]);
    let outcomes =
        client.embed_stream(batches, &accelerd_client::EmbedOptions::default()).await.expect("bidirectional");
    assert_eq!(outcomes.try_collect::<Vec<_>>().await.expect("it ends well").len(), 1);
    assert!(!format!("{client:?}").contains("s3cret"));
}

#[tokio::test]
async fn calls_without_the_right_token_are_unauthenticated_and_not_retried() {
    let (fake, certificates, url) = served(ClientCertificates::Ignored).await;
    fake.state().token = Some("s3cret");
    let builder = Client::builder(&url).tls(trusting(&certificates));
    for builder in [builder.clone(), builder.token("wrong")] {
        let error = builder.connect().await.expect("it connects").models().await.expect_err("it is refused");
        let failure = error.failure().expect("the daemon said why");
        assert_eq!((failure.code, failure.attempts), (Code::Unauthenticated, 1));
    }
}

#[tokio::test]
async fn a_token_may_use_plaintext_on_this_machine() {
    let fake = FakeDaemon::default();
    fake.state().token = Some("s3cret");
    let address = fake.listen().await;
    let client = Client::builder(address.to_string()).token("s3cret").connect().await.expect("it connects");
    assert!(client.models().await.is_ok());
}
