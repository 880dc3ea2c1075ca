//! Tests of authorisation without a network.

use std::net::SocketAddr;

use accelerd_proto::methods::{device_service, similarity_service};

use super::{token::Token, *};
use crate::{peer::CertificateNames, telemetry::Metrics};

const SEARCH: &str = similarity_service::SEARCH.path();
const UPSERT: &str = similarity_service::UPSERT.path();
const DRAIN: &str = device_service::DRAIN.path();
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// A principals file with one principal of each role, and their tokens.
struct File {
    _folder: tempfile::TempDir,
    config: Config,
    read: Token,
    write: Token,
}

impl File {
    fn new() -> Self {
        let [read, write] = [(); 2].map(|()| Token::random().expect("random bytes"));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("principals.toml");
        let text = format!(
            "[[principal]]\nname = \"reader\"\nrole = \"read\"\ntokens = [\"{}\"]\ncollections = [\"a-*\"]\n\
             [[principal]]\nname = \"writer\"\nrole = \"write\"\ntokens = [\"{}\"]\nrequests_per_second = 0.001\n\
             bytes_in_flight = \"10B\"\n\
             [[principal]]\nname = \"admin\"\nrole = \"admin\"\ncertificate_names = [\"admin.svc\"]\n",
            read.hash(),
            write.hash()
        );
        std::fs::write(&path, text).expect("written");
        let mut config = Config::loopback();
        config.auth.principals = path;
        Self { _folder: folder, config, read, write }
    }
}

fn metrics() -> Metrics {
    Metrics::new(None).expect("metrics without an endpoint")
}

fn open(config: &Config) -> Result<Auth, AuthError> {
    Auth::open(config, metrics().meter())
}

fn peer(certificate: Option<&str>) -> Arc<Peer> {
    let names = |name: &str| CertificateNames { dns: vec![name.to_owned()], uris: vec![] };
    let certificate = certificate.map(names);
    Arc::new(Peer { certificate, ..Peer::at(SocketAddr::from(([10, 0, 0, 1], 1))) })
}

fn authorization(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, value.parse().expect("a header"))])
}

fn bearer(token: &Token) -> HeaderMap {
    authorization(&format!("Bearer {}", token.reveal()))
}

/// The principal, or the reason of the refusal.
fn outcome(auth: &Auth, path: &str, headers: &HeaderMap, certificate: Option<&str>) -> Result<String, &'static str> {
    let authorized = auth.authorize(path, &peer(certificate), headers);
    authorized.map(|caller| caller.name().to_owned()).map_err(|refusal| refusal.reason())
}

#[test]
fn an_unprotected_port_that_other_machines_reach_refuses_to_start() {
    let mut config = Config::loopback();
    assert!(open(&config).is_ok());
    for address in ["0.0.0.0:0", "[::]:0", "10.0.0.1:0"] {
        config.server.listen = address.parse().expect("an address");
        let error = open(&config).expect_err(address).to_string();
        assert!(error.contains("auth.principals") && error.contains("auth.insecure"), "{error}");
    }
    config.auth.insecure = true;
    assert!(open(&config).is_ok());
}

#[test]
fn tokens_that_would_travel_in_plaintext_refuse_to_start() {
    let file = File::new();
    let mut config = file.config.clone();
    assert!(open(&config).is_ok(), "on a loopback address");
    config.server.listen = "0.0.0.0:0".parse().expect("an address");
    let error = open(&config).expect_err("plaintext").to_string();
    assert!(error.contains("auth.principals") && error.contains("tls.certificate"), "{error}");
    assert!(error.contains("auth.insecure"), "{error}");
    let mut with_tls = config.clone();
    with_tls.tls.certificate = "/certificate".into();
    assert!(open(&with_tls).is_ok());
    config.auth.insecure = true;
    assert!(open(&config).is_ok());
}

#[test]
fn a_reload_cannot_bring_tokens_to_a_plaintext_port() {
    let file = File::new();
    let mut config = file.config.clone();
    config.server.listen = "0.0.0.0:0".parse().expect("an address");
    let path = config.auth.principals.clone();
    let with_tokens = std::fs::read(&path).expect("read");
    std::fs::write(&path, "").expect("written");
    let auth = open(&config).expect("no tokens");
    std::fs::write(&path, with_tokens).expect("written");
    let reloaded = auth.principals().expect("a file").refresh().expect("it has changed");
    assert!(reloaded.expect_err("tokens in plaintext").contains("plaintext"));
    assert_eq!(outcome(&auth, SEARCH, &bearer(&file.read), None), Err("WRONG_CREDENTIALS"));
}

#[test]
fn without_a_principals_file_everybody_may_do_everything() {
    let auth = open(&Config::loopback()).expect("loopback");
    for path in [SEARCH, UPSERT, DRAIN, HEALTH] {
        assert_eq!(outcome(&auth, path, &HeaderMap::new(), None), Ok("anonymous".into()));
    }
    let caller = auth.authorize(SEARCH, &peer(None), &authorization("Bearer x")).expect("allowed");
    assert!(caller.sees_collection("any") && caller.sees_model(["any"]));
    assert_eq!(caller.queue_id(), peer(None).host_id());
}

#[test]
fn each_role_may_call_its_methods() {
    let file = File::new();
    let auth = open(&file.config).expect("valid");
    let none = HeaderMap::new();
    let reader = bearer(&file.read);
    assert_eq!(outcome(&auth, SEARCH, &reader, None), Ok("reader".into()));
    assert_eq!(outcome(&auth, UPSERT, &reader, None), Err("ROLE_TOO_LOW"));
    assert_eq!(outcome(&auth, DRAIN, &reader, None), Err("ROLE_TOO_LOW"));
    assert_eq!(outcome(&auth, UPSERT, &bearer(&file.write), None), Ok("writer".into()));
    assert_eq!(outcome(&auth, DRAIN, &none, Some("admin.svc")), Ok("admin".into()));
    assert_eq!(outcome(&auth, SEARCH, &none, None), Err("NO_CREDENTIALS"));
    assert_eq!(outcome(&auth, "/made.up/Method", &none, None), Err("NO_CREDENTIALS"));
    assert_eq!(outcome(&auth, "/made.up/Method", &reader, None), Ok("reader".into()));
    assert_eq!(outcome(&auth, HEALTH, &none, None), Ok("anonymous".into()));
}

#[test]
fn wrong_credentials_are_refused_even_where_none_are_needed() {
    let mut file = File::new();
    file.config.auth.anonymous = Anonymous::Write;
    let auth = open(&file.config).expect("valid");
    let none = HeaderMap::new();
    assert_eq!(outcome(&auth, UPSERT, &none, None), Ok("anonymous".into()));
    assert_eq!(outcome(&auth, DRAIN, &none, None), Err("ROLE_TOO_LOW"));
    let token = file.read.reveal();
    let mut both = bearer(&file.read);
    both.append(AUTHORIZATION, "Bearer a".parse().expect("a header"));
    for headers in [
        authorization("Bearer acl_guess"),
        authorization("Bearer "),
        authorization("Basic YTpi"),
        authorization(token),
        authorization(&format!("Bearer {token}x")),
        both,
    ] {
        assert_eq!(outcome(&auth, SEARCH, &headers, None), Err("WRONG_CREDENTIALS"));
        assert_eq!(outcome(&auth, SEARCH, &headers, Some("admin.svc")), Err("WRONG_CREDENTIALS"));
    }
    assert_eq!(outcome(&auth, SEARCH, &none, Some("other.svc")), Err("WRONG_CREDENTIALS"));
    assert_eq!(outcome(&auth, SEARCH, &authorization(&format!("bearer  {token} ")), None), Ok("reader".into()));
    assert_eq!(
        outcome(&auth, SEARCH, &bearer(&file.read), Some("admin.svc")),
        Ok("reader".into()),
        "the token decides"
    );
}

#[test]
fn names_outside_of_the_patterns_are_refused() {
    let file = File::new();
    let auth = open(&file.config).expect("valid");
    let caller = auth.authorize(SEARCH, &peer(None), &bearer(&file.read)).expect("allowed");
    assert!(caller.check_collection("a-1").is_ok());
    let refusal = caller.check_collection(&"b".repeat(1000)).expect_err("outside");
    assert_eq!(refusal.reason(), "COLLECTION_NOT_ALLOWED");
    assert!(refusal.to_string().len() < 300, "a long name is cut");
    assert!(caller.check_model("any", ["any"]).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_principal_over_its_quotas_is_refused() {
    let file = File::new();
    let auth = open(&file.config).expect("valid");
    let writer = bearer(&file.write);
    let caller = auth.authorize(SEARCH, &peer(None), &writer).expect("the first request");
    let refusal = auth.authorize(SEARCH, &peer(None), &writer).expect_err("one in 1000 seconds");
    assert_eq!(refusal.reason(), "RATE_EXCEEDED");
    assert!(refusal.retry_after().is_some_and(|after| after.as_secs() >= 999), "{refusal:?}");
    assert_eq!(outcome(&auth, SEARCH, &bearer(&file.read), None), Ok("reader".into()), "others are not affected");
    let held = caller.reserve_bytes(10).expect("10 bytes").expect("a quota");
    let refusal = caller.reserve_bytes(1).expect_err("none are left");
    assert!(refusal.retry_after().is_some());
    assert!(caller.reserve_bytes(11).expect_err("too large").retry_after().is_none());
    drop(held);
    assert!(caller.reserve_bytes(10).is_ok());
}

#[test]
fn refusals_are_counted_by_reason() {
    let file = File::new();
    let metrics = metrics();
    let auth = Auth::open(&file.config, metrics.meter()).expect("valid");
    for headers in [HeaderMap::new(), HeaderMap::new(), authorization("Bearer x")] {
        assert!(auth.authorize(SEARCH, &peer(None), &headers).is_err());
    }
    let text = metrics.text();
    assert!(text.contains("accelerd_auth_refused_total{reason=\"NO_CREDENTIALS\"} 2"), "{text}");
    assert!(text.contains("accelerd_auth_refused_total{reason=\"WRONG_CREDENTIALS\"} 1"), "{text}");
}
