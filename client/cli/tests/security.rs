//! Runs the program against a fake daemon with TLS and a token.

use std::{fs, path::Path, process::Command};

use accelerd_test_support::{Certificates, ClientCertificates, FakeDaemon};

const TOKEN: &str = "s3cret";

/// A daemon that requires the token, and a folder with the PEM files and the token of its callers.
struct Served {
    _fake: FakeDaemon,
    url: String,
    folder: tempfile::TempDir,
}

impl Served {
    async fn new(client_certificates: ClientCertificates) -> Self {
        let fake = FakeDaemon::default();
        let certificates = Certificates::new();
        fake.state().token = Some(TOKEN);
        let address = fake.listen_tls(&certificates, client_certificates).await;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let client = &certificates.client;
        let files = [
            ("ca.pem", certificates.ca.as_str()),
            ("client.pem", &client.certificate),
            ("client.key", &client.private_key),
            ("token", &format!("{TOKEN}\n")),
            ("other", "other\n"),
        ];
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("it can be written");
        }
        Self { _fake: fake, url: format!("https://localhost:{}", address.port()), folder }
    }

    /// Exit code and messages of a run in the folder.
    async fn run(&self, words: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
        run(self.folder.path(), &[words, &["--server", &self.url]].concat(), environment).await
    }
}

/// Runs the program on a blocking thread, so that the fake daemon can respond.
async fn run(folder: &Path, words: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
    for variable in ["SERVER", "TOKEN", "TOKEN_FILE", "TLS_CA", "TLS_CERT", "TLS_KEY", "TLS_SERVER_NAME"] {
        command.env_remove(format!("ACCELERD_{variable}"));
    }
    command.args(words).envs(environment.iter().copied()).current_dir(folder);
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
    let shown = [output.stdout, output.stderr].concat();
    (output.status.code().expect("no signal"), String::from_utf8(shown).expect("text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_token_come_from_options_or_the_environment() {
    let served = Served::new(ClientCertificates::Required).await;
    let identity = ["--tls-cert", "client.pem", "--tls-key", "client.key"];
    let options = [&["models", "--tls-ca", "ca.pem", "--token-file", "token"][..], &identity].concat();
    let (code, shown) = served.run(&options, &[]).await;
    assert!(code == 0 && shown.contains("toy"), "{shown}");

    let files =
        [("ACCELERD_TLS_CA", "ca.pem"), ("ACCELERD_TLS_CERT", "client.pem"), ("ACCELERD_TLS_KEY", "client.key")];
    let (code, shown) = served.run(&["models"], &[&files[..], &[("ACCELERD_TOKEN", TOKEN)]].concat()).await;
    assert!(code == 0 && shown.contains("toy"), "{shown}");
    let (code, shown) = served.run(&["health"], &[&files[..], &[("ACCELERD_TOKEN_FILE", "token")]].concat()).await;
    assert!(code == 0 && shown.contains("serving"), "{shown}");
    let (code, _) =
        served.run(&["models", "--token-file", "other"], &[&files[..], &[("ACCELERD_TOKEN", TOKEN)]].concat()).await;
    assert_eq!(code, 7, "the option overrides the environment");

    let unset =
        ["TLS_CA", "TLS_CERT", "TLS_KEY", "TLS_SERVER_NAME", "TOKEN_FILE"].map(|name| format!("ACCELERD_{name}"));
    let unset: Vec<_> = unset.iter().map(|name| (name.as_str(), "")).collect();
    let (code, shown) = served.run(&options, &unset).await;
    assert!(code == 0, "an empty variable is none: {shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_name_the_option_that_is_missing() {
    let served = Served::new(ClientCertificates::Ignored).await;
    let (code, shown) = served.run(&["models"], &[("ACCELERD_TOKEN", TOKEN)]).await;
    assert!(code == 3 && shown.contains("--tls-ca") && !shown.contains(TOKEN), "{shown}");
    let (code, shown) = served.run(&["models", "--tls-ca", "ca.pem"], &[]).await;
    assert!(code == 7 && shown.contains("--token-file or ACCELERD_TOKEN"), "{shown}");
    let (code, shown) = served.run(&["models", "--tls-ca", "ca.pem", "--tls-server-name", "other"], &[]).await;
    assert!(code == 3 && shown.contains("--tls-server-name"), "{shown}");
    let (code, shown) = served.run(&["models", "--tls-ca", "missing.pem"], &[]).await;
    assert!(code == 2 && shown.contains("missing.pem"), "{shown}");
    let (code, shown) = served.run(&["models", "--tls-cert", "client.pem"], &[]).await;
    assert!(code == 2 && shown.contains("--tls-cert needs --tls-key"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plaintext_to_a_daemon_with_tls_says_what_to_try() {
    let served = Served::new(ClientCertificates::Ignored).await;
    let plaintext = served.url.replace("https://", "http://");
    let (code, shown) = run(served.folder.path(), &["models", "--server", &plaintext, "--timeout", "5s"], &[]).await;
    assert!(code != 0 && shown.contains("https://"), "{shown}");

    let address = FakeDaemon::default().listen().await;
    let secured = format!("https://{address}");
    let (code, shown) = run(served.folder.path(), &["models", "--server", &secured, "--tls-ca", "ca.pem"], &[]).await;
    assert!(code == 3 && shown.contains("http:// address"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_not_sent_in_plaintext_to_another_machine() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = ["models", "--server", "http://192.0.2.1:7433", "--timeout", "1s"];
    let (code, shown) = run(folder.path(), &words, &[("ACCELERD_TOKEN", TOKEN)]).await;
    assert!(code == 2 && shown.contains("in plaintext") && !shown.contains(TOKEN), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn shells_complete_names_of_a_protected_daemon() {
    let served = Served::new(ClientCertificates::Ignored).await;
    let line = ["--", "accelctl", "--server", &served.url, "--tls-ca", "ca.pem", "embed", "x", "--model", ""];
    let shell = ("COMPLETE", "fish");
    let (_, shown) = run(served.folder.path(), &line, &[shell, ("ACCELERD_TOKEN", TOKEN)]).await;
    assert!(shown.lines().any(|line| line.trim_end() == "toy"), "{shown:?}");
    let (_, shown) = run(served.folder.path(), &line, &[shell]).await;
    assert!(!shown.contains("toy"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_help_says_why_no_option_takes_a_token() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (code, shown) = run(folder.path(), &["models", "--help"], &[("ACCELERD_TOKEN", TOKEN)]).await;
    assert!(code == 0 && shown.contains("--token-file") && shown.contains("lines of all processes"), "{shown}");
    assert!(!shown.contains(TOKEN), "{shown}");
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf_8_is_refused_by_name() {
    use std::os::unix::ffi::OsStrExt;

    for (variable, name) in [
        ("ACCELERD_TOKEN", "ACCELERD_TOKEN: expected a token, got bytes that are not UTF-8"),
        ("ACCELERD_SERVER", "'--server <URL>': expected UTF-8"),
        ("ACCELERD_TLS_SERVER_NAME", "'--tls-server-name <NAME>': expected UTF-8"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
        command.arg("models").env_remove("ACCELERD_TOKEN_FILE").env(variable, std::ffi::OsStr::from_bytes(b"\xff"));
        let output = command.output().expect("it starts");
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && shown.contains(name), "{variable}: {shown}");
    }
}
