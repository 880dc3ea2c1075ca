//! What is asked of a hub over HTTP, and what its refusals mean.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::IpAddr,
    path::Path,
    time::Duration,
};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use ureq::{
    Agent, Body,
    http::{Response, StatusCode, header::LOCATION},
};
use url::{Host, Url};

use super::{folder::disk, repo::Repo};
use crate::error::ApiError;

/// Most bytes of the list of a model's files.
const MOST_LIST_BYTES: u64 = 16 << 20;

/// Most bytes of a file of settings, as the loader has it.
const MOST_JSON_BYTES: u64 = 256 << 20;

/// Most redirects from an address to where its content is.
const MOST_REDIRECTS: usize = 10;

/// Bytes that are written at once; between them it is seen whether the caller still waits.
const STEP: usize = 256 << 10;

/// A hub, and how it is spoken to.
#[derive(Debug)]
pub(super) struct Wire {
    agent: Agent,
    endpoint: Url,
    token: Option<String>,
}

/// A model's files at a commit.
#[derive(Debug, Deserialize)]
pub(super) struct Listing {
    /// The commit.
    pub(super) sha: String,
    /// The files.
    #[serde(default)]
    pub(super) siblings: Vec<Listed>,
}

/// A file of a model.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Listed {
    /// Its path below the model.
    #[serde(rename = "rfilename")]
    pub(super) path: String,
    /// Its bytes, where the hub says so.
    pub(super) size: Option<u64>,
    /// What is known of a large file.
    pub(super) lfs: Option<Large>,
}

/// What is known of a large file.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Large {
    /// Of its content, in hexadecimal.
    pub(super) sha256: Option<String>,
}

impl Wire {
    /// A connection that is made when it is first needed. The token goes to the hub alone, and nowhere in the clear except
    /// to this machine.
    pub(super) fn new(endpoint: &str, timeout: Duration, token: Option<String>) -> Option<Self> {
        let endpoint = Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let is_here = endpoint.host().is_some_and(|host| is_loopback(&host));
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // Followed here, where it is seen what may go along.
            .max_redirects(0)
            .timeout_resolve(Some(timeout))
            .timeout_connect(Some(timeout))
            .timeout_recv_response(Some(timeout))
            .timeout_per_read(Some(timeout))
            .user_agent(concat!("accelerd/", env!("CARGO_PKG_VERSION")));
        if is_here {
            config = config.proxy(None);
        }
        let token = token.filter(|token| !token.is_empty() && (is_here || endpoint.scheme() == "https"));
        Some(Self { agent: config.build().into(), endpoint, token })
    }

    /// Host and port, for messages.
    pub(super) fn host(&self) -> String {
        let host = self.endpoint.host_str().unwrap_or_default();
        self.endpoint.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The files of a model at its revision.
    pub(super) fn list(&self, repo: &Repo) -> Result<Listing, ApiError> {
        let (Repo { owner, name, .. }, revision) = (repo, repo.revision_name());
        let url = self.url(&format!("api/models/{owner}/{name}/revision/{revision}?blobs=true"));
        let mut response = self.get(repo, &url)?;
        let text = response.body_mut().with_config().limit(MOST_LIST_BYTES).read_to_vec();
        let text = text.map_err(|error| self.broken(repo, "the list of files", &error))?;
        serde_json::from_slice(&text).map_err(|error| self.broken(repo, "the list of files", &error))
    }

    /// Writes a file of a commit. What is there afterwards is all of it, or the call failed.
    pub(super) fn download(
        &self,
        repo: &Repo,
        commit: &str,
        file: &Listed,
        to: &Path,
        gone: &CancellationToken,
    ) -> Result<(), ApiError> {
        let (Repo { owner, name, .. }, path) = (repo, &file.path);
        let response = self.get(repo, &self.url(&format!("{owner}/{name}/resolve/{commit}/{path}")))?;
        let most = if path.strip_suffix(".json").is_some() { MOST_JSON_BYTES } else { u64::MAX };
        let mut from = response.into_body().into_reader();
        let mut out = File::create(to).map_err(|error| disk(to, &error))?;
        let (mut digest, mut bytes, mut step) = (Sha256::new(), 0, vec![0; STEP]);
        loop {
            if gone.is_cancelled() {
                return Err(ApiError::Unavailable(format!("{repo} is fetched for nobody any more")));
            }
            let count = match from.read(&mut step) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.broken(repo, path, &error)),
            };
            bytes += count as u64;
            if bytes > file.size.unwrap_or(most).min(most) {
                return Err(self.broken(repo, path, &"it is larger than said"));
            }
            digest.update(&step[..count]);
            out.write_all(&step[..count]).map_err(|error| disk(to, &error))?;
        }
        if let Some(size) = file.size.filter(|size| *size != bytes) {
            return Err(self.broken(repo, path, &format!("it ended after {bytes} of {size} bytes")));
        }
        check_digest(repo, file, &format!("{:x}", digest.finalize()))?;
        out.sync_all().map_err(|error| disk(to, &error))
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.endpoint.as_str().trim_end_matches('/'))
    }

    fn get(&self, repo: &Repo, url: &str) -> Result<Response<Body>, ApiError> {
        let wrong =
            |reason: String| ApiError::Unavailable(format!("{} cannot be asked for {repo}: {reason}", self.host()));
        let mut at = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        let mut token = self.token.as_deref();
        for _ in 0..=MOST_REDIRECTS {
            let response = self.ask(repo, &at, token)?;
            if response.status().is_success() {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let Some(location) = location.filter(|_| response.status().is_redirection()) else {
                return Err(self.refusal(repo, &response));
            };
            let next = redirected(&at, location).map_err(wrong)?;
            // Once left, the hub's origin gets it no more in this request: who redirects back may not be the hub.
            token = token.filter(|_| next.origin() == self.endpoint.origin());
            at = next;
        }
        Err(wrong(format!("it redirects more than {MOST_REDIRECTS} times")))
    }

    fn ask(&self, repo: &Repo, url: &Url, token: Option<&str>) -> Result<Response<Body>, ApiError> {
        let mut request = self.agent.get(url.as_str());
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.call().map_err(|error| {
            let hint = "where there is no way to it, give the path of a folder";
            ApiError::Unavailable(format!("cannot reach {} for {repo}: {error}; {hint}", self.host()))
        })
    }

    /// What a hub's refusal means. Without a token it may not tell what is private from what is not there.
    fn refusal(&self, repo: &Repo, response: &Response<Body>) -> ApiError {
        let header = response.headers().get("x-error-code").and_then(|code| code.to_str().ok());
        let status = response.status();
        match (status, header) {
            (_, Some("RepoNotFound" | "RevisionNotFound" | "EntryNotFound")) | (StatusCode::NOT_FOUND, _) => {
                ApiError::NotFound { kind: "model", name: repo.to_string() }
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                let advice = "it is gated, private or not there; HF_TOKEN in the daemon's environment may name a token \
                              that may read it";
                ApiError::Denied(format!("{} refuses {repo}: {advice}", self.host()))
            }
            _ => ApiError::Unavailable(format!("{} answers {status} for {repo}", self.host())),
        }
    }

    fn broken(&self, repo: &Repo, what: &str, error: &dyn std::fmt::Display) -> ApiError {
        ApiError::Unavailable(format!("{} sent {what} of {repo} not whole: {error}", self.host()))
    }
}

fn check_digest(repo: &Repo, file: &Listed, got: &str) -> Result<(), ApiError> {
    match file.lfs.as_ref().and_then(|large| large.sha256.as_deref()) {
        Some(expected) if expected != got => {
            let path = &file.path;
            Err(ApiError::DataLoss(format!("{path} of {repo} is damaged: its SHA-256 is {got}, expected {expected}")))
        }
        _ => Ok(()),
    }
}

/// Where a redirect leads, if it may be followed: never from https to what can be read on the way.
fn redirected(from: &Url, location: &str) -> Result<Url, String> {
    let next = from.join(location).map_err(|error| format!("it redirects to no address: {error}"))?;
    match (from.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => Ok(next),
        (_, scheme) => Err(format!("it redirects from {} to {scheme}", from.scheme())),
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(ip) => IpAddr::from(*ip).is_loopback(),
        Host::Ipv6(ip) => IpAddr::from(*ip).is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(endpoint: &str) -> Option<Wire> {
        Wire::new(endpoint, Duration::from_secs(1), Some("secret".to_owned()))
    }

    #[test]
    fn a_token_is_sent_over_tls_or_to_this_machine_alone() {
        for (endpoint, sent) in [
            ("https://hub.example", true),
            ("http://hub.example", false),
            ("http://127.0.0.1:8000", true),
            ("http://localhost", true),
            ("http://[::1]:80", true),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(wire(endpoint).expect("an address").token.is_some(), sent, "{endpoint}");
        }
        assert!(wire("ftp://hub.example").is_none() && wire("hub").is_none());
    }

    /// An answer of a server, given the port of another one.
    type Answer = fn(u16) -> String;

    const FOUND: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

    fn redirect(location: &str) -> String {
        format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    }

    /// Answers requests, and returns for each whether it had a token.
    fn serve(listener: std::net::TcpListener, answers: Vec<String>) -> std::thread::JoinHandle<Vec<bool>> {
        std::thread::spawn(move || {
            let answer = |answer: String| {
                let (mut stream, _) = listener.accept().expect("a request");
                let (mut head, mut byte) = (vec![], [0]);
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("readable") == 1 {
                    head.extend(byte);
                }
                stream.write_all(answer.as_bytes()).expect("writable");
                String::from_utf8_lossy(&head).to_ascii_lowercase().contains("authorization: bearer secret")
            };
            answers.into_iter().map(answer).collect()
        })
    }

    #[test]
    fn a_token_follows_no_redirect_to_another_host_or_port_and_does_not_come_back() {
        let elsewhere: Answer = |port| redirect(&format!("http://127.0.0.1:{port}/x"));
        let other_name: Answer = |port| redirect(&format!("http://localhost:{port}/x"));
        let here: Answer = |_| redirect("/y");
        let found: Answer = |_| FOUND.to_owned();
        for (hub, other, tokens) in [
            (vec![here, found], vec![], (vec![true, true], vec![])),
            (vec![elsewhere], vec![found], (vec![true], vec![false])),
            (vec![other_name], vec![found], (vec![true], vec![false])),
            (vec![elsewhere, found], vec![elsewhere], (vec![true, false], vec![false])),
        ] {
            let listen = || std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let (first, second) = (listen(), listen());
            let port = |listener: &std::net::TcpListener| listener.local_addr().expect("an address").port();
            let (hub_port, other_port) = (port(&first), port(&second));
            let hub = serve(first, hub.iter().map(|answer| answer(other_port)).collect());
            let other = serve(second, other.iter().map(|answer| answer(hub_port)).collect());
            let wire = wire(&format!("http://127.0.0.1:{hub_port}")).expect("an address");
            let repo = Repo::parse("hf://a/b").expect("of a hub").expect("a name");
            wire.get(&repo, &wire.url("a")).expect("found");
            assert_eq!((hub.join().expect("ended"), other.join().expect("ended")), tokens);
        }
    }

    #[test]
    fn redirects_stay_on_https_and_on_http() {
        let from = |text: &str| Url::parse(text).expect("an address");
        let follow = |at: &str, location: &str| redirected(&from(at), location).map(|url| url.to_string());
        assert_eq!(follow("https://hub.example/a/b", "c"), Ok("https://hub.example/a/c".to_owned()));
        assert_eq!(follow("http://hub.example/a", "https://cdn.example/b"), Ok("https://cdn.example/b".to_owned()));
        for (at, location) in [
            ("https://hub.example", "http://hub.example/"),
            ("https://hub.example", "http://127.0.0.1/"),
            ("https://hub.example", "file:///etc/passwd"),
            ("http://hub.example", "ftp://hub.example/"),
            ("https://hub.example", "https://"),
        ] {
            assert!(redirected(&from(at), location).is_err(), "{at} -> {location}");
        }
    }

    #[test]
    fn addresses_are_below_the_endpoint() {
        let wire = wire("https://mirror.example/hub/").expect("an address");
        assert_eq!(wire.url("a/b"), "https://mirror.example/hub/a/b");
        assert_eq!(wire.host(), "mirror.example");
    }
}
