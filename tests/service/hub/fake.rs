//! A model hub on loopback: lists the files of models, serves them from a second host name, and injects faults.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fs,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use accelerd_parity::encoders;
use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::{net::TcpListener, sync::watch};

/// The commit at the head of every model's main branch.
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The fault with which the hub serves a file.
#[derive(Clone, Debug, Default)]
pub(crate) enum Fault {
    /// Sends the file.
    #[default]
    None,
    /// Closes the connection in the middle.
    Truncate,
    /// Changes a byte in the middle.
    Flip,
    /// Sends more than the announced length.
    Longer,
    /// Sends half, and the rest when the gate opens.
    Gate(watch::Receiver<bool>),
}

/// A received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) token: Option<String>,
}

#[derive(Default)]
struct HubState {
    /// Models by `owner/name`, each with its files.
    models: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// The response in place of a file list, by `owner/name`: a status and the hub's error code.
    refusals: BTreeMap<String, (u16, &'static str)>,
    /// True if the file list has sizes.
    sizes: bool,
    faults: BTreeMap<String, Fault>,
    asked: Vec<Asked>,
}

/// A hub that serves until its runtime ends.
#[derive(Clone)]
pub(crate) struct FakeHub {
    address: SocketAddr,
    state: Arc<Mutex<HubState>>,
}

type Content = UnsyncBoxBody<Bytes, std::io::Error>;
type Answer = Response<Content>;

impl FakeHub {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let state = Arc::new(Mutex::new(HubState { sizes: true, ..HubState::default() }));
        let hub = Self { address: listener.local_addr().expect("an address"), state };
        let served = hub.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let hub = served.clone();
                let answer = service_fn(move |request| {
                    let answer = hub.clone().answer(&request);
                    async { Ok::<_, Infallible>(answer) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        hub
    }

    /// Adds one of the small models, and files that loading does not need.
    pub(crate) fn with(&self, name: &str, folder: &str) {
        let mut files = BTreeMap::new();
        collect(&encoders().join(folder), "", &mut files);
        for extra in ["README.md", "pytorch_model.bin", "onnx/model.onnx", "other.safetensors"] {
            files.insert(extra.to_owned(), b"nobody needs this".to_vec());
        }
        self.state().models.insert(name.to_owned(), files);
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn remove(&self, name: &str, file: &str) {
        self.state().models.get_mut(name).and_then(|files| files.remove(file)).expect("it is there");
    }

    pub(crate) fn write(&self, name: &str, file: &str, text: &[u8]) {
        self.state().models.get_mut(name).expect("it is there").insert(file.to_owned(), text.to_vec());
    }

    pub(crate) fn refuse(&self, name: &str, status: u16, word: &'static str) {
        self.state().refusals.insert(name.to_owned(), (status, word));
    }

    pub(crate) fn say_no_sizes(&self) {
        self.state().sizes = false;
    }

    pub(crate) fn fault(&self, file: &str, fault: Fault) {
        self.state().faults.insert(file.to_owned(), fault);
    }

    /// The paths of the requests since the last call, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state().asked)
    }

    fn state(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(self, request: &Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let token = request.headers().get(header::AUTHORIZATION).and_then(|token| token.to_str().ok());
        self.state().asked.push(Asked { path: path.clone(), token: token.map(str::to_owned) });
        let parts: Vec<_> = path.split('/').skip(1).collect();
        match parts.as_slice() {
            ["api", "models", owner, name, "revision", revision] => self.list(&format!("{owner}/{name}"), revision),
            [owner, name, "resolve", COMMIT, file @ ..] => {
                // Hubs redirect to another host for the content.
                let place = format!("http://localhost:{}/files/{owner}/{name}/{}", self.address.port(), file.join("/"));
                let answer = Response::builder().status(StatusCode::FOUND).header(header::LOCATION, place);
                answer.body(empty()).expect("an answer")
            }
            ["files", owner, name, file @ ..] => self.send(&format!("{owner}/{name}"), &file.join("/")),
            _ => refusal(404, ""),
        }
    }

    fn list(&self, name: &str, revision: &str) -> Answer {
        let state = self.state();
        if let Some((status, word)) = state.refusals.get(name) {
            return refusal(*status, word);
        }
        let Some(files) = state.models.get(name) else { return refusal(401, "RepoNotFound") };
        if !["main", "refs%2Fpr%2F1", COMMIT].contains(&revision) {
            return refusal(404, "RevisionNotFound");
        }
        let file = |(path, bytes): (&String, &Vec<u8>)| {
            let mut file = json!({ "rfilename": path });
            if state.sizes {
                file["size"] = bytes.len().into();
            }
            if state.sizes && path.ends_with(".safetensors") {
                file["lfs"] = json!({ "sha256": format!("{:x}", Sha256::digest(bytes)), "size": bytes.len() });
            }
            file
        };
        let list = json!({ "id": name, "sha": COMMIT, "siblings": files.iter().map(file).collect::<Vec<_>>() });
        Response::new(whole(list.to_string().into_bytes()))
    }

    fn send(&self, name: &str, file: &str) -> Answer {
        let state = self.state();
        let Some(bytes) = state.models.get(name).and_then(|files| files.get(file)) else {
            return refusal(404, "EntryNotFound");
        };
        let (mut bytes, half) = (bytes.clone(), bytes.len() / 2);
        match state.faults.get(file).cloned().unwrap_or_default() {
            Fault::None => Response::new(whole(bytes)),
            Fault::Flip => {
                bytes[half] ^= 1;
                Response::new(whole(bytes))
            }
            Fault::Longer => {
                bytes.push(0);
                Response::new(whole(bytes))
            }
            Fault::Truncate => {
                let hangs_up = async {
                    // The first half is sent before the gate.
                    tokio::task::yield_now().await;
                    Err(std::io::Error::other("hung up"))
                };
                halves(&bytes, hangs_up.boxed())
            }
            Fault::Gate(mut gate) => {
                let opened = async move {
                    let _gone = gate.wait_for(|open| *open).await;
                    Ok(())
                };
                halves(&bytes, opened.boxed())
            }
        }
    }
}

/// Every file below a folder, by its path.
fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), files);
        } else {
            files.insert(name, fs::read(entry.path()).expect("a file"));
        }
    }
}

fn empty() -> Content {
    whole(vec![])
}

fn whole(bytes: Vec<u8>) -> Content {
    Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync()
}

/// A body of the announced length whose second half waits for a signal.
fn halves(bytes: &[u8], between: BoxFuture<'static, std::io::Result<()>>) -> Answer {
    let length = bytes.len();
    let first = bytes[..length / 2].to_vec();
    let second = bytes[length / 2..].to_vec();
    let second = between.map(|happened| happened.map(|()| Frame::data(Bytes::from(second))));
    let frames = stream::iter([Ok(Frame::data(Bytes::from(first)))]).chain(stream::once(second));
    let body = StreamBody::new(frames).boxed_unsync();
    Response::builder().header(header::CONTENT_LENGTH, length).body(body).expect("an answer")
}

fn refusal(status: u16, word: &str) -> Answer {
    Response::builder().status(status).header("x-error-code", word).body(empty()).expect("an answer")
}
