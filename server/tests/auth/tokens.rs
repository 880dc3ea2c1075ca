//! Tokens, roles and quotas.

use accelerd::{Config, Daemon, StartError, auth::AuthError, config::Anonymous};
use accelerd_proto::v1::{self, device_service_client::DeviceServiceClient};
use futures::StreamExt as _;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

use crate::harness::{
    Files, embed, new_collection, one_text, plaintext, principal, refusal, refused, reload, similarity, token,
    with_token,
};

/// A daemon with these principals, and the files of its settings.
async fn start(principals: &str, change: impl FnOnce(&mut Config)) -> (Daemon, Files) {
    let files = Files::new();
    let mut config = Config::loopback();
    config.auth.principals = files.write("principals.toml", principals);
    change(&mut config);
    (Daemon::start(config).await.expect("the daemon starts"), files)
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_need_credentials_of_a_sufficient_role() {
    let [reader, writer, admin, stranger] = std::array::from_fn(|_| token());
    let file = [
        principal("reader", "read", &reader, ""),
        principal("writer", "write", &writer, ""),
        principal("admin", "admin", &admin, ""),
    ];
    let (daemon, _files) = start(&file.concat(), |config| config.drain.allow_rpc = true).await;
    let channel = plaintext(&daemon).await;
    let call = async |token| embed(&channel, token).embed(one_text("")).await;
    assert_eq!(refusal(call(None).await), refused(Code::Unauthenticated, "NO_CREDENTIALS"));
    assert_eq!(refusal(call(Some(&stranger)).await), refused(Code::Unauthenticated, "WRONG_CREDENTIALS"));
    for token in [&reader, &writer, &admin] {
        call(Some(token)).await.expect("every role may embed");
    }
    let too_low = refused(Code::PermissionDenied, "ROLE_TOO_LOW");
    let create = async |token, name| similarity(&channel, token).create_collection(new_collection(name)).await;
    assert_eq!(refusal(create(Some(&reader), "a").await), too_low);
    create(Some(&writer), "a").await.expect("a writer may");
    create(Some(&admin), "b").await.expect("an administrator may");
    let resume = async |token| DeviceServiceClient::new(with_token(&channel, token)).resume(v1::ResumeRequest {}).await;
    assert_eq!(refusal(resume(Some(&writer)).await), too_low);
    resume(Some(&admin)).await.expect("an administrator may");
    HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.expect("health needs no credentials");
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_without_credentials_may_do_what_the_setting_says() {
    let reader = token();
    let file = principal("reader", "read", &reader, "");
    let (daemon, _files) = start(&file, |config| config.auth.anonymous = Anonymous::Read).await;
    let channel = plaintext(&daemon).await;
    embed(&channel, None).embed(one_text("")).await.expect("anonymous callers may read");
    let create = similarity(&channel, None).create_collection(new_collection("a")).await;
    assert_eq!(refusal(create), refused(Code::PermissionDenied, "ROLE_TOO_LOW"));
    let stranger = embed(&channel, Some(&token())).embed(one_text("")).await;
    assert_eq!(refusal(stranger), refused(Code::Unauthenticated, "WRONG_CREDENTIALS"));
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tokens_are_valid_at_once_until_a_reload_removes_one() {
    let (old, new) = (token(), token());
    let both =
        format!("[[principal]]\nname = \"a\"\nrole = \"read\"\ntokens = [\"{}\", \"{}\"]\n", old.hash(), new.hash());
    let (daemon, files) = start(&both, |_| {}).await;
    let channel = plaintext(&daemon).await;
    let call = async |token| embed(&channel, Some(token)).embed(one_text("")).await;
    call(&old).await.expect("the old token");
    call(&new).await.expect("the new token");
    files.write("principals.toml", &principal("a", "read", &new, ""));
    reload(&daemon, "accelerd_principals_reloads_total").await;
    assert_eq!(refusal(call(&old).await), refused(Code::Unauthenticated, "WRONG_CREDENTIALS"));
    call(&new).await.expect("the new token stays valid");
    files.write("principals.toml", "[[principal]]\nname = \"a\"\n");
    reload(&daemon, "accelerd_principals_reloads_total{outcome=\"failed\"}").await;
    call(&new).await.expect("an invalid file keeps the previous one");
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_principal_over_its_rate_is_told_when_to_retry() {
    let (slow, other) = (token(), token());
    let file =
        principal("slow", "read", &slow, "requests_per_second = 0.001") + &principal("other", "read", &other, "");
    let (daemon, _files) = start(&file, |_| {}).await;
    let channel = plaintext(&daemon).await;
    let call = async |token| embed(&channel, Some(token)).embed(one_text("")).await;
    call(&slow).await.expect("the first request");
    let status = call(&slow).await.expect_err("the rate is exhausted");
    assert_eq!(status.code(), Code::ResourceExhausted);
    let retry = status.get_details_retry_info().and_then(|info| info.retry_delay).expect("retry info");
    assert!((900..=1000).contains(&retry.as_secs()), "{retry:?}");
    assert_eq!(status.get_details_quota_failure().expect("quota failure").violations.len(), 1);
    call(&other).await.expect("others are not affected");
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_of_a_principal_s_messages_are_limited_and_released() {
    let limited = token();
    let (daemon, _files) = start(&principal("a", "read", &limited, "bytes_in_flight = \"1KiB\""), |_| {}).await;
    let channel = plaintext(&daemon).await;
    let call = async |bytes: usize| {
        let mut request = one_text("");
        request.prompt = Some("x".repeat(bytes));
        embed(&channel, Some(&limited)).embed(request).await
    };
    for _ in 0..10 {
        embed(&channel, Some(&limited)).embed(one_text("")).await.expect("small messages, one after the other");
    }
    let status = call(2000).await.expect_err("above the quota");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.get_details_quota_failure().is_some() && status.get_details_retry_info().is_none(), "{status:?}");
    let batches = (0..20).map(|sequence| v1::EmbedStreamRequest { sequence, embed: Some(one_text("")) });
    let stream = embed(&channel, Some(&limited)).embed_stream(futures::stream::iter(batches)).await;
    let answers: Vec<_> = stream.expect("a stream").into_inner().collect().await;
    assert!(answers.len() == 20 && answers.iter().all(Result::is_ok), "a stream waits for its quota: {answers:?}");
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unprotected_daemon_starts_only_if_that_is_accepted() {
    let mut config = Config::loopback();
    config.server.listen = "0.0.0.0:0".parse().expect("an address");
    let error = Daemon::start(config.clone()).await.map(drop).expect_err("everybody could call it");
    assert!(matches!(error, StartError::Auth(AuthError::Unprotected { .. })), "{error}");
    config.auth.insecure = true;
    Daemon::start(config.clone()).await.expect("it is accepted").shutdown().await;
    let files = Files::new();
    config.auth.insecure = false;
    config.auth.principals = files.write("principals.toml", &principal("a", "read", &token(), ""));
    let error = Daemon::start(config.clone()).await.map(drop).expect_err("tokens in plaintext").to_string();
    assert!(error.contains("auth.insecure") && error.contains("tls.certificate"), "{error}");
    config.auth.insecure = true;
    Daemon::start(config).await.expect("it is accepted").shutdown().await;
}
