//! Logs of a daemon in a process of its own: audit events, and never a token.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    thread::JoinHandle,
};

use accelerd_proto::v1::{self, tensor_input::Source, tensor_service_client::TensorServiceClient};
use serde_json::Value;
use tonic::transport::{Channel, Endpoint};

use crate::harness::{
    Authority, Files, Identity, Validity, embed, new_collection, one_text, principal, similarity, token, with_token,
};

fn accelerd(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelerd"));
    for (key, value) in [
        ("SERVER__LISTEN", "127.0.0.1:0"),
        ("SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
        ("SERVER__HEALTH_LISTEN", "127.0.0.1:0"),
        ("HTTP__LISTEN", "127.0.0.1:0"),
        ("BACKEND__KIND", "cpu"),
        ("TELEMETRY__LOG_FORMAT", "json"),
        ("DRAIN__ENDPOINT_DELAY", "0s"),
    ] {
        command.env(format!("ACCELERD__{key}"), value);
    }
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A daemon in a separate process, whose log is read as it is written.
struct Running {
    child: Child,
    channel: Channel,
    log: JoinHandle<Vec<String>>,
    /// A message for each reload in the log.
    reloads: Receiver<()>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = accelerd(arguments).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("its log")).lines().map_while(Result::ok);
        let mut log = vec![];
        let address = loop {
            let line = lines.next().expect("it serves");
            let parsed: Value = serde_json::from_str(&line).unwrap_or_default();
            log.push(line);
            if parsed["message"] == "serving" {
                break parsed["grpc"].as_str().expect("an address").to_owned();
            }
        };
        let (reloaded, reloads) = channel();
        let rest = std::thread::spawn(move || {
            log.extend(lines.inspect(|line| {
                if line.contains(r#""message":"reloaded""#) {
                    // The test may not wait for it.
                    let _unread = reloaded.send(());
                }
            }));
            log
        });
        let channel = Endpoint::from_shared(format!("http://{address}")).expect("a URI").connect_lazy();
        Self { child, channel, log: rest, reloads }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Has the daemon read its changed credentials, and waits until it has.
    fn reload(&self) {
        self.signal("-HUP");
        self.reloads.recv().expect("it reloads them");
    }

    /// Ends the daemon and returns its log.
    fn stop(mut self) -> Vec<String> {
        self.signal("-TERM");
        self.child.wait().expect("it ends");
        self.log.join().expect("the log ends")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_changes_of_state_are_audited_and_no_token_is_ever_logged() {
    let files = Files::new();
    let writer = token();
    let reader = token();
    let stranger = token();
    let file =
        principal("writer", "write", &writer, "collections = [\"a\"]") + &principal("reader", "read", &reader, "");
    let path = files.write("principals.toml", &file);
    let principals = format!("auth.principals={}", path.display());
    let level = "telemetry.log_level=trace,accelerd=trace";
    let running = Running::start(&["--set", &principals, "--set", level]);
    let channel = running.channel.clone();
    let mut client = similarity(&channel, Some(&writer));
    client.create_collection(new_collection("a")).await.expect("its own name");
    client.create_collection(new_collection("b")).await.expect_err("another name");
    embed(&channel, Some(&reader)).embed(one_text("")).await.expect("a reader may");
    similarity(&channel, Some(&reader)).create_collection(new_collection("c")).await.expect_err("a reader may not");
    embed(&channel, Some(&stranger)).embed(one_text("")).await.expect_err("an unknown token");
    embed(&channel, None).embed(one_text("")).await.expect_err("no token");
    client.delete_collection(v1::DeleteCollectionRequest { name: "a".to_owned() }).await.expect("its own name");
    drop((client, channel));
    let log = running.stop();
    for token in [&writer, &reader, &stranger] {
        let hash = token.hash().to_string();
        for secret in [token.reveal(), hash.trim_start_matches("sha256:")] {
            assert!(log.iter().all(|line| !line.contains(secret)), "a token or its hash is logged");
        }
    }
    let events = log.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let audited = events.filter(|event| event["target"] == "accelerd::audit").map(|event| {
        assert!(event["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{event}");
        let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let method = field("method").rsplit('/').next().unwrap_or_default().to_owned();
        [field("outcome"), field("principal"), method, field("resource"), field("reason")].join(" ")
    });
    let expected = [
        "done writer CreateCollection a ",
        "refused writer CreateCollection b COLLECTION_NOT_ALLOWED",
        "refused reader CreateCollection  ROLE_TOO_LOW",
        "refused anonymous Embed  WRONG_CREDENTIALS",
        "refused anonymous Embed  NO_CREDENTIALS",
        "done writer DeleteCollection a ",
    ];
    assert_eq!(audited.collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_resident_tensors_are_audited_with_their_handles() {
    let files = Files::new();
    let writer = token();
    let path = files.write("principals.toml", &principal("writer", "write", &writer, ""));
    let running = Running::start(&["--set", &format!("auth.principals={}", path.display())]);
    let mut client = TensorServiceClient::new(with_token(&running.channel, Some(&writer)));
    let header = v1::UploadTensorHeader { dtype: v1::Dtype::U8.into(), shape: vec![3], ..Default::default() };
    let part = v1::UploadTensorRequest { header: Some(header), data: vec![7; 3].into() };
    let uploaded = client.upload_tensor(futures::stream::iter([part])).await.expect("it fits").into_inner();
    let uploaded = uploaded.tensor.expect("a tensor").handle;
    let copy = v1::CopyTensorRequest { handle: uploaded.clone(), ..Default::default() };
    let copied = client.copy_tensor(copy).await.expect("it fits").into_inner().tensor.expect("a tensor").handle;
    let execute = |keep| v1::ExecuteRequest {
        inputs: vec![v1::TensorInput { name: "x".to_owned(), source: Some(Source::Handle(uploaded.clone())) }],
        outputs: vec![v1::TensorOutput { name: "x".to_owned(), keep }],
        ..Default::default()
    };
    let kept = client.execute(execute(true)).await.expect("it is kept").into_inner().kept.remove(0).handle;
    client.execute(execute(false)).await.expect("it is returned, which changes nothing");
    let handles = vec![uploaded.clone(), kept.clone()];
    client.free_tensors(v1::FreeTensorsRequest { handles }).await.expect("both are there");
    drop(client);
    let log = running.stop();
    let events = log.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let audited = events.filter(|event| event["target"] == "accelerd::audit").map(|event| {
        let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let method = field("method").rsplit('/').next().unwrap_or_default().to_owned();
        [field("outcome"), field("principal"), method, field("resource")].join(" ")
    });
    let expected = [
        format!("done writer UploadTensor {uploaded}"),
        format!("done writer CopyTensor {copied}"),
        format!("done writer Execute {kept}"),
        format!("done writer FreeTensors {uploaded},{kept}"),
    ];
    assert_eq!(audited.collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_are_not_valid_now_are_served_with_a_warning_of_their_dates() {
    let files = Files::new();
    let authority = Authority::new();
    let write = |validity| {
        let Identity { certificate, key } = authority.sign("localhost", validity);
        (files.write("tls.crt", &certificate), files.write("tls.key", &key))
    };
    let (certificate, key) = write(Validity::Expired);
    let settings = [
        format!("tls.certificate={}", certificate.display()),
        format!("tls.private_key={}", key.display()),
        "tls.reload_interval=1day".to_owned(),
    ];
    let running = Running::start(&settings.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>());
    write(Validity::Future);
    running.reload();
    write(Validity::Now);
    running.reload();
    let log = running.stop();
    let events = log.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let warnings = events.filter(|event| event["target"] == "accelerd::tls::validity").map(|event| {
        assert_eq!((&event["level"], event["file"].as_str()), (&"WARN".into(), certificate.to_str()), "{event}");
        let message = event["message"].as_str().expect("text");
        let date = [&event["not_after"], &event["not_before"]].into_iter().find_map(Value::as_str).expect("a date");
        format!("{message}: {date}")
    });
    let expected = [
        "the certificate has expired, so that clients refuse it: 2001-01-01T00:00:00Z",
        "the certificate is not valid yet, so that clients refuse it: 3000-01-01T00:00:00Z",
    ];
    assert_eq!(warnings.collect::<Vec<_>>(), expected);
}

fn run(arguments: &[&str]) -> Output {
    accelerd(arguments).output().expect("the binary runs")
}

#[test]
fn a_created_token_hashes_to_the_printed_line() {
    let output = run(&["token", "create"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let [token, hash] = text.lines().collect::<Vec<_>>()[..] else { panic!("two lines") };
    assert!(token.starts_with("acl_") && token.len() == 68);
    assert_eq!(accelerd::auth::token::TokenHash::of(token.as_bytes()).to_string(), hash);
}

#[test]
fn mistakes_in_the_principals_file_fail_the_start_all_at_once() {
    let files = Files::new();
    let path =
        files.write("principals.toml", "[[principal]]\nname = \"a\"\nrole = \"owner\"\n[[principal]]\nnome = \"b\"\n");
    let output = run(&["--set", &format!("auth.principals={}", path.display())]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).expect("text");
    for mistake in ["principal \"a\": role", "principal 2: name", "principal 2: unknown key \"nome\""] {
        assert!(text.contains(mistake), "{mistake} in {text}");
    }
}
