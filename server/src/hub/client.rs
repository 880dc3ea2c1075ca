//! HTTP client of a model hub, and the mapping of its errors.

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

use super::{cache::cache_error, repo::Repo};
use crate::error::ApiError;

/// Maximum size of a model's file list.
const MAX_INFO_BYTES: u64 = 16 << 20;

/// Maximum size of a JSON file; the loader has the same limit.
const MAX_JSON_BYTES: u64 = 256 << 20;

const MAX_REDIRECTS: usize = 10;

/// Size of a read during a download, between checks for cancellation.
const CHUNK_BYTES: usize = 256 << 10;

/// An HTTP client of a hub.
#[derive(Debug)]
pub(super) struct HubClient {
    agent: Agent,
    endpoint: Url,
    token: Option<String>,
}

/// The hub's description of a repository at a revision.
#[derive(Debug, Deserialize)]
pub(super) struct RepoInfo {
    /// The commit.
    pub(super) sha: String,
    #[serde(default)]
    pub(super) siblings: Vec<RepoFile>,
}

/// A file of a repository.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RepoFile {
    /// Path in the repository.
    #[serde(rename = "rfilename")]
    pub(super) path: String,
    /// Size in bytes, if the hub reports it.
    pub(super) size: Option<u64>,
    /// Git LFS metadata of a large file.
    pub(super) lfs: Option<LfsInfo>,
}

/// Git LFS metadata.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct LfsInfo {
    /// SHA-256 of the content in hexadecimal.
    pub(super) sha256: Option<String>,
}

impl HubClient {
    /// A client that connects on first use. The token is sent only to the hub's origin, and over plain HTTP only to
    /// loopback. `None` if the endpoint is not an HTTP URL.
    pub(super) fn new(endpoint: &str, timeout: Duration, token: Option<String>) -> Option<Self> {
        let endpoint = Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let is_local = endpoint.host().is_some_and(|host| is_loopback(&host));
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // `get` follows redirects itself, to control where the token is sent.
            .max_redirects(0)
            .timeout_resolve(Some(timeout))
            .timeout_connect(Some(timeout))
            .timeout_recv_response(Some(timeout))
            .timeout_per_read(Some(timeout))
            .user_agent(concat!("accelerd/", env!("CARGO_PKG_VERSION")));
        if is_local {
            config = config.proxy(None);
        }
        let token = token.filter(|token| !token.is_empty() && (is_local || endpoint.scheme() == "https"));
        Some(Self { agent: config.build().into(), endpoint, token })
    }

    /// Host and port, for messages.
    pub(super) fn host(&self) -> String {
        let host = self.endpoint.host_str().unwrap_or_default();
        self.endpoint.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The commit and files of a repository at its revision.
    pub(super) fn info(&self, repo: &Repo) -> Result<RepoInfo, ApiError> {
        let Repo { owner, name, .. } = repo;
        let revision = repo.escaped_revision();
        let url = self.url(&format!("api/models/{owner}/{name}/revision/{revision}?blobs=true"));
        let mut response = self.get(repo, &url)?;
        let text = response.body_mut().with_config().limit(MAX_INFO_BYTES).read_to_vec();
        let text = text.map_err(|error| self.transfer_error(repo, "the file list", &error))?;
        serde_json::from_slice(&text).map_err(|error| self.transfer_error(repo, "the file list", &error))
    }

    /// Downloads a file of a commit and verifies its size and digest.
    pub(super) fn download(
        &self,
        repo: &Repo,
        commit: &str,
        file: &RepoFile,
        to: &Path,
        cancel: &CancellationToken,
    ) -> Result<(), ApiError> {
        let Repo { owner, name, .. } = repo;
        let path = &file.path;
        let response = self.get(repo, &self.url(&format!("{owner}/{name}/resolve/{commit}/{path}")))?;
        let max = if path.strip_suffix(".json").is_some() { MAX_JSON_BYTES } else { u64::MAX };
        let mut from = response.into_body().into_reader();
        let mut out = File::create(to).map_err(|error| cache_error(to, &error))?;
        let mut digest = Sha256::new();
        let mut bytes = 0;
        let mut step = vec![0; CHUNK_BYTES];
        loop {
            if cancel.is_cancelled() {
                return Err(ApiError::Unavailable(format!("the download of {repo} was cancelled")));
            }
            let count = match from.read(&mut step) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.transfer_error(repo, path, &error)),
            };
            bytes += count as u64;
            if bytes > file.size.unwrap_or(max).min(max) {
                return Err(self.transfer_error(repo, path, &"it is larger than announced"));
            }
            digest.update(&step[..count]);
            out.write_all(&step[..count]).map_err(|error| cache_error(to, &error))?;
        }
        if let Some(size) = file.size.filter(|size| *size != bytes) {
            return Err(self.transfer_error(repo, path, &format!("it ended after {bytes} of {size} bytes")));
        }
        check_digest(repo, file, &format!("{:x}", digest.finalize()))?;
        out.sync_all().map_err(|error| cache_error(to, &error))
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.endpoint.as_str().trim_end_matches('/'))
    }

    fn get(&self, repo: &Repo, url: &str) -> Result<Response<Body>, ApiError> {
        let wrong =
            |reason: String| ApiError::Unavailable(format!("cannot request {repo} from {}: {reason}", self.host()));
        let mut address = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        let mut token = self.token.as_deref();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.request(repo, &address, token)?;
            if response.status().is_success() {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let Some(location) = location.filter(|_| response.status().is_redirection()) else {
                return Err(self.status_error(repo, &response));
            };
            let next = redirect_target(&address, location).map_err(wrong)?;
            // After a redirect to another origin the token is not sent again, even if redirected back.
            token = token.filter(|_| next.origin() == self.endpoint.origin());
            address = next;
        }
        Err(wrong(format!("it redirects more than {MAX_REDIRECTS} times")))
    }

    fn request(&self, repo: &Repo, url: &Url, token: Option<&str>) -> Result<Response<Body>, ApiError> {
        let mut request = self.agent.get(url.as_str());
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.call().map_err(|error| {
            let hint = "without access to the hub, give the path of a directory";
            ApiError::Unavailable(format!("cannot reach {} for {repo}: {error}; {hint}", self.host()))
        })
    }

    /// Maps an HTTP error. Without a token a hub may report private repositories as missing.
    fn status_error(&self, repo: &Repo, response: &Response<Body>) -> ApiError {
        let header = response.headers().get("x-error-code").and_then(|code| code.to_str().ok());
        let status = response.status();
        match (status, header) {
            (_, Some("RepoNotFound" | "RevisionNotFound" | "EntryNotFound")) | (StatusCode::NOT_FOUND, _) => {
                ApiError::NotFound { kind: "model", name: repo.to_string() }
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                let advice = "it is gated, private or missing; set HF_TOKEN in the daemon's environment to a token with \
                              access";
                ApiError::Denied(format!("{} denied access to {repo}: {advice}", self.host()))
            }
            _ => ApiError::Unavailable(format!("{} returned {status} for {repo}", self.host())),
        }
    }

    fn transfer_error(&self, repo: &Repo, what: &str, error: &dyn std::fmt::Display) -> ApiError {
        ApiError::Unavailable(format!("{} sent an incomplete response for {what} of {repo}: {error}", self.host()))
    }
}

fn check_digest(repo: &Repo, file: &RepoFile, got: &str) -> Result<(), ApiError> {
    match file.lfs.as_ref().and_then(|large| large.sha256.as_deref()) {
        Some(expected) if expected != got => {
            let path = &file.path;
            Err(ApiError::DataLoss(format!("{path} of {repo} is corrupt: expected SHA-256 {expected}, got {got}")))
        }
        _ => Ok(()),
    }
}

/// The target of a redirect, unless it leads from https to another scheme.
fn redirect_target(from: &Url, location: &str) -> Result<Url, String> {
    let next = from.join(location).map_err(|error| format!("it redirects to an invalid URL: {error}"))?;
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

    fn client(endpoint: &str) -> Option<HubClient> {
        HubClient::new(endpoint, Duration::from_secs(1), Some("secret".to_owned()))
    }

    #[test]
    fn a_token_is_sent_only_over_tls_or_to_loopback() {
        for (endpoint, sent) in [
            ("https://hub.example", true),
            ("http://hub.example", false),
            ("http://127.0.0.1:8000", true),
            ("http://localhost", true),
            ("http://[::1]:80", true),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(client(endpoint).expect("an address").token.is_some(), sent, "{endpoint}");
        }
        assert!(client("ftp://hub.example").is_none() && client("hub").is_none());
    }

    /// Makes a response from the port of the other server.
    type MakeResponse = fn(u16) -> String;

    const FOUND: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

    fn redirect(location: &str) -> String {
        format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    }

    /// Answers requests, and returns for each whether it had a token.
    fn serve(listener: std::net::TcpListener, responses: Vec<String>) -> std::thread::JoinHandle<Vec<bool>> {
        std::thread::spawn(move || {
            let response = |response: String| {
                let (mut stream, _) = listener.accept().expect("a request");
                let mut head = vec![];
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("readable") == 1 {
                    head.extend(byte);
                }
                stream.write_all(response.as_bytes()).expect("writable");
                String::from_utf8_lossy(&head).to_ascii_lowercase().contains("authorization: bearer secret")
            };
            responses.into_iter().map(response).collect()
        })
    }

    #[test]
    fn a_token_is_not_sent_after_a_redirect_to_another_origin() {
        let elsewhere: MakeResponse = |port| redirect(&format!("http://127.0.0.1:{port}/x"));
        let other_name: MakeResponse = |port| redirect(&format!("http://localhost:{port}/x"));
        let here: MakeResponse = |_| redirect("/y");
        let found: MakeResponse = |_| FOUND.to_owned();
        for (hub, other, tokens) in [
            (vec![here, found], vec![], (vec![true, true], vec![])),
            (vec![elsewhere], vec![found], (vec![true], vec![false])),
            (vec![other_name], vec![found], (vec![true], vec![false])),
            (vec![elsewhere, found], vec![elsewhere], (vec![true, false], vec![false])),
        ] {
            let listen = || std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let (first, second) = (listen(), listen());
            let port = |listener: &std::net::TcpListener| listener.local_addr().expect("an address").port();
            let hub_port = port(&first);
            let other_port = port(&second);
            let hub = serve(first, hub.iter().map(|response| response(other_port)).collect());
            let other = serve(second, other.iter().map(|response| response(hub_port)).collect());
            let client = client(&format!("http://127.0.0.1:{hub_port}")).expect("an address");
            let repo = Repo::parse("hf://a/b").expect("of a hub").expect("a name");
            client.get(&repo, &client.url("a")).expect("found");
            assert_eq!((hub.join().expect("ended"), other.join().expect("ended")), tokens);
        }
    }

    #[test]
    fn redirects_never_downgrade_https() {
        let from = |text: &str| Url::parse(text).expect("an address");
        let follow = |at: &str, location: &str| redirect_target(&from(at), location).map(|url| url.to_string());
        assert_eq!(follow("https://hub.example/a/b", "c"), Ok("https://hub.example/a/c".to_owned()));
        assert_eq!(follow("http://hub.example/a", "https://cdn.example/b"), Ok("https://cdn.example/b".to_owned()));
        for (at, location) in [
            ("https://hub.example", "http://hub.example/"),
            ("https://hub.example", "http://127.0.0.1/"),
            ("https://hub.example", "file:///etc/passwd"),
            ("http://hub.example", "ftp://hub.example/"),
            ("https://hub.example", "https://"),
        ] {
            assert!(redirect_target(&from(at), location).is_err(), "{at} -> {location}");
        }
    }

    #[test]
    fn urls_are_below_the_endpoint() {
        let client = client("https://mirror.example/hub/").expect("an address");
        assert_eq!(client.url("a/b"), "https://mirror.example/hub/a/b");
        assert_eq!(client.host(), "mirror.example");
    }
}
